"""What every blueprint over events makes of a provider's rows, and of rows that no such query has (G-032, G-153)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.service.http.analytics.test_connected_blueprint import QUERY, ask
from tests.service.http.analytics.test_connection import provider as provider  # noqa: PLC0414 (found by name)
from tests.service.http.analytics.test_connection import running as running  # noqa: PLC0414
from tests.service.http.analytics.test_connection import server as server  # noqa: PLC0414
from tests.service.http.analytics.test_connection import world as world  # noqa: PLC0414
from tests.support.api import World, ok
from tests.support.connecting import connect
from tests.support.onboarding import Onboarding, onboard
from tests.support.provider import FakeProvider

DAY = 86400
PEOPLE = "uniqExact(distinct_id) from events where timestamp"
TREND = "count(), uniqExact(distinct_id) from events where event"
FUNNEL, RETURNED, VALUES, RELEASES, TRAFFIC = (
    "windowFunnel(",
    "arrayJoin(began)",
    "JSONType(",
    "$app_version",
    "as place",
)
AB = {"events": ["a", "b"]}
COHORTS = {"start_event": "a", "return_event": "b"}


async def connected(world: World, provider: FakeProvider) -> tuple[Onboarding, int]:
    """A connected project, and the midnight two days ago."""
    onb = await onboard(world)
    await connect(onb, provider)
    [[today]] = await world.sql("select service_today()")
    return onb, today - 2 * DAY


def cells(answer: Any) -> list[tuple[Any, ...]]:
    """Rows without the names of their columns."""
    assert answer["evidence"]["source"] == "provider_cloud"
    return [tuple(row[column["name"]] for column in answer["columns"]) for row in answer["rows"]]


async def test_sparse_rows_of_a_provider_become_the_same_answers(world: World, provider: FakeProvider) -> None:
    """By the functions that finish our own: with empty days, shares, and steps that nobody stopped at."""
    onb, day = await connected(world, provider)
    provider.tables = {
        FUNNEL: [[1, 3], [2, 1]],
        RETURNED: [[day, day + DAY, 1]],
        VALUES: [["pro", 3, 2, 4], [None, 1, 1, 4]],
        TREND: [[day, 5, 2]],
        PEOPLE: [[day + DAY, 4]],
    }
    window = {"from": day, "to": day + 2 * DAY}
    for blueprint_id, params, expected in (
        ("active-users", {}, [(day, 0), (day + DAY, 4)]),
        ("event-trend", {"event": "a"}, [(day, 5, 2), (day + DAY, 0, 0)]),
        ("ordered-funnel", AB, [(1, "a", 4, 1.0, None, 4), (2, "b", 1, 0.25, 0.25, 4)]),
        ("retention", COHORTS, [(day, 2, day + DAY, 1, 0.5)]),
        ("breakdown", {"event": "a", "property": "plan"}, [("pro", 3, 2, 0.75, 4), (None, 1, 1, 0.25, 4)]),
        ("error-free-users", {}, [(day, 0, 0, None), (day + DAY, 4, 0, 1.0)]),
    ):
        answer = ok(await ask(onb, blueprint_id, {"params": params, **window}))
        assert cells(answer) == expected, blueprint_id
    compared = ok(
        await ask(onb, "ordered-funnel-period-compare", {"params": {**AB, "period_days": 1}, "to": day + 2 * DAY})
    )
    assert cells(compared) == [(1, "a", 4, 4, 1.0, 1.0), (2, "b", 1, 1, 0.25, 0.25)]
    asked = [body["query"]["values"] for body in provider.calls(QUERY) if FUNNEL in body["query"]["query"]]
    assert [(values["since"], values["until"], values["window"]) for values in asked] == [
        (day, day + 2 * DAY, 2 * DAY),
        (day, day + DAY, DAY),
        (day + DAY, day + 2 * DAY, DAY),
    ]
    assert all(values["step_1"] == "a" and values["step_3"] == "" for values in asked)


async def test_errors_here_are_set_beside_events_there(world: World, provider: FakeProvider) -> None:
    """Errors and deploys are our own; a period is told by its place."""
    onb, _ = await connected(world, provider)
    sender = world.having(onb.dsn)
    deploy = ok(await sender.post("/v1/deploys/", {"version": "2.0", "environment": "production"}), 202)
    error = ok(
        await sender.post("/v1/logs/", {"level": "error", "message": "boom", "release": "2.0", "user": {"id": "u1"}}),
        202,
    )
    provider.tables = {RELEASES: [["2.0", 500]], TRAFFIC: [[0, 10], [1, 20]]}
    releases = ok(await ask(onb, "release-comparison", {"params": {"release": "2.0", "base_release": "1.0"}}))
    assert [tuple(row.values()) for row in releases["rows"]] == [("2.0", 1, 1, 500, 2.0), ("1.0", 0, 0, 0, None)]
    impact = ok(await ask(onb, "deploy-impact", {"params": {"deploy_id": deploy["id"]}}))
    assert [tuple(row.values()) for row in impact["rows"]] == [("before", 0, 0, 10, 0.0), ("after", 1, 1, 20, 50.0)]
    params = {"deploy_id": deploy["id"], "case_id": error["case_id"]}
    again = ok(await ask(onb, "deploy-recurrence", {"params": params}))
    assert again["rows"][0]["traffic_count"] == 20
    assert again["evidence"]["source"] == "provider_cloud", "where a part of the answer comes from there"


@pytest.mark.parametrize(
    ("blueprint_id", "params", "part", "rows"),
    [
        ("ordered-funnel", AB, FUNNEL, [[1, 3], [1, 4]]),
        ("ordered-funnel", AB, FUNNEL, [[3, 1]]),
        ("ordered-funnel", AB, FUNNEL, [[0, 1]]),
        ("ordered-funnel", AB, FUNNEL, [[1, -1]]),
        ("ordered-funnel-period-compare", {**AB, "period_days": 1}, FUNNEL, [[3, 1]]),
        ("active-users", {}, PEOPLE, [["2026-01-01", 1]]),
        ("event-trend", {"event": "a"}, TREND, [[0, 1]]),
        ("retention", COHORTS, TREND, [[0, None, 1]]),
        ("breakdown", {"event": "a", "property": "p"}, VALUES, [[{"a": 1}, 1, 1, 1]]),
    ],
)
async def test_rows_that_no_such_query_has_are_a_failed_read(
    world: World, provider: FakeProvider, blueprint_id: str, params: Any, part: str, rows: Any
) -> None:
    onb, _ = await connected(world, provider)
    provider.tables = {part: rows}
    answer = await ask(onb, blueprint_id, {"params": params})
    assert answer.status_code == 502, answer.text
