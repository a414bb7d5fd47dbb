"""Blueprints of connected projects: the provider is asked, and what it does not answer is no rows (G-032, G-151)."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import httpx2
import psycopg
import pytest

from tests.service.http.analytics.test_connection import provider as provider  # noqa: PLC0414 (found by name)
from tests.service.http.analytics.test_connection import running as running  # noqa: PLC0414
from tests.service.http.analytics.test_connection import server as server  # noqa: PLC0414
from tests.service.http.analytics.test_connection import world as world  # noqa: PLC0414
from tests.support.api import World, ok
from tests.support.connecting import NO_READ, RESTING, connect
from tests.support.onboarding import Onboarding, onboard
from tests.support.provider import FakeProvider

QUERY = "/api/projects/42/query/"
COUNT, TOP = "uniqExact(distinct_id) from events where event =", "group by event"


async def ask(onb: Onboarding, blueprint_id: str, body: Any) -> httpx2.Response:
    """Run a blueprint, whatever comes of it."""
    return await onb.owner.client.post(
        f"/v1/projects/{onb.project_id}/query-blueprints/{blueprint_id}/run",
        json=body,
        headers={"authorization": f"Bearer {onb.owner.secret}"},
    )


async def test_events_are_those_of_the_provider(world: World, provider: FakeProvider) -> None:
    """Not those that this service has as well; freshness is the provider's, and nothing is said of what it keeps."""
    onb = await onboard(world)
    await connect(onb, provider)
    sender = world.having(onb.dsn)
    ok(await sender.post("/v1/analytics/", {"event": "order_paid", "distinct_id": "x"}), 202)
    [[now]] = await world.sql("select service_seconds()")
    provider.capture("order_paid", now - 100)
    provider.tables[COUNT] = [[7, 3]]
    answer = ok(await ask(onb, "event-count", {"params": {"event": "order_paid", "days": 2}}))
    assert answer["rows"] == [{"row_count": 7, "unique_users": 3}]
    assert (answer["evidence"]["source"], answer["evidence"]["complete"]) == ("provider_cloud", True)
    assert answer["evidence"]["kept_from"] is None
    assert answer["freshness"]["last_event_at"] == now - 100
    asked = next(body["query"] for body in provider.calls(QUERY) if "uniqExact" in body["query"]["query"])
    assert asked["values"] == {
        "event": "order_paid",
        "since": answer["evidence"]["from"],
        "until": answer["evidence"]["to"],
        "earliest": answer["evidence"]["from"] - 86400,
        "most": 10_001,
    }


async def test_errors_stay_our_own(world: World, provider: FakeProvider) -> None:
    """Whatever the project is connected to (G-152)."""
    onb = await onboard(world)
    await connect(onb, provider)
    ok(await world.having(onb.dsn).post("/v1/logs/", {"level": "error", "message": "boom", "release": "1.0"}), 202)
    provider.fail[QUERY] = 500
    answer = ok(await ask(onb, "errors-by-release", {}))
    assert [row["release"] for row in answer["rows"]] == ["1.0"]
    assert answer["evidence"]["source"] == "local"


def nonsense(handler: Any) -> None:
    """Answer what is no JSON."""
    handler.reply(200, b"<html>")


@pytest.mark.parametrize(
    "misbehave",
    [500, 502, 429, 400, 403, nonsense],
)
async def test_a_failed_read_is_no_empty_answer(world: World, provider: FakeProvider, misbehave: Any) -> None:
    """A failure, with a key too. The key is free for the next attempt."""
    onb = await onboard(world)
    await connect(onb, provider)
    provider.fail[QUERY] = misbehave
    for blueprint_id, body in (("event-count", {"params": {"event": "a"}}), ("top-events", {})):
        answer = await ask(onb, blueprint_id, body)
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == RESTING.get(misbehave, NO_READ)
        assert error["retryable"] is True
        assert answer.headers["retry-after"]
        assert "rows" not in answer.json()


@pytest.mark.parametrize(
    "rows",
    [[], [[7]], [[7, 3, 1]], [["7", 3]], [[-1, 0]], [[7, None]], [7], [[7.5, 1]]],
)
async def test_rows_of_another_form_are_no_rows(world: World, provider: FakeProvider, rows: Any) -> None:
    """Each is checked against what was asked for; a count has exactly one row."""
    onb = await onboard(world)
    await connect(onb, provider)
    provider.tables[COUNT] = rows
    answer = await ask(onb, "event-count", {"params": {"event": "a"}})
    assert answer.status_code == 502, answer.text


async def test_a_name_is_a_value_and_never_part_of_the_query(world: World, provider: FakeProvider) -> None:
    onb = await onboard(world)
    await connect(onb, provider)
    provider.tables[COUNT] = [[0, 0]]
    name = "a' or 1=1 -- {since} %(until)s"
    ok(await ask(onb, "event-count", {"params": {"event": name}}))
    asked = [body["query"] for body in provider.calls(QUERY) if "uniqExact" in body["query"]["query"]]
    assert asked[0]["values"]["event"] == name
    assert name not in json.dumps([query["query"] for query in asked])


async def test_a_repeat_is_answered_while_the_provider_is_away(world: World, provider: FakeProvider) -> None:
    """What was answered under a key is looked up before anything is asked (G-008)."""
    onb = await onboard(world)
    await connect(onb, provider)
    provider.tables[COUNT] = [[7, 3]]
    path = f"/v1/projects/{onb.project_id}/query-blueprints/event-count/run"
    body = {"params": {"event": "a"}}
    first = await onb.owner.post(path, body, key="kept")
    provider.fail[QUERY] = 500
    asked = len(provider.calls(QUERY))
    again = await onb.owner.post(path, body, key="kept")
    assert again.headers["idempotent-replayed"] == "true"
    assert ok(again) == ok(first)
    assert len(provider.calls(QUERY)) == asked
    assert (await ask(onb, "event-count", body)).status_code == 503


async def test_what_hangs_is_given_up_in_time_and_holds_up_nobody(world: World, provider: FakeProvider) -> None:
    """A provider that says nothing, and records that are locked: 504 within ten seconds, others at once (G-151)."""
    connected, locked, modest = await onboard(world), await onboard(world), await onboard(world)
    await connect(connected, provider)
    done = threading.Event()
    provider.fail[QUERY] = lambda _: done.wait(30)
    body = {"params": {"event": "a"}}
    async with await psycopg.AsyncConnection.connect(world.server.database_url) as holder:
        await holder.execute("lock table analytics_events in access exclusive mode")
        hanging = [asyncio.create_task(ask(onb, "event-count", body)) for onb in (connected, connected, locked, locked)]
        while any(not task.done() for task in hanging):
            answer = ok(await ask(modest, "errors-by-release", {}))
            assert answer["rows"] == []
            await asyncio.sleep(0.4)
        await holder.rollback()
    done.set()
    told = sorted((task.result().status_code, task.result().json()["error"]["code"]) for task in hanging)
    # The second of each account had no turn within its five seconds.
    assert told == [(429, "rate_limited"), (429, "rate_limited"), (504, "upstream_timeout"), (504, "upstream_timeout")]
    assert all(task.result().headers["retry-after"] for task in hanging)
    assert ok(await ask(locked, "event-count", body))["rows"] == [{"row_count": 0, "unique_users": 0}]
