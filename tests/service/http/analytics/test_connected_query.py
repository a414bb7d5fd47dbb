"""Analytics queries of connected projects: events and texts are the provider's to answer (G-032, G-066, G-154)."""

from __future__ import annotations

import threading
from typing import Any

import httpx2
import pytest

from tests.service.http.analytics.test_connection import provider as provider  # noqa: PLC0414 (found by name)
from tests.service.http.analytics.test_connection import running as running  # noqa: PLC0414
from tests.service.http.analytics.test_connection import server as server  # noqa: PLC0414
from tests.service.http.analytics.test_connection import world as world  # noqa: PLC0414
from tests.support.api import World, ok, refused
from tests.support.connecting import NO_READ, RESTING, connect
from tests.support.onboarding import Onboarding, onboard
from tests.support.provider import FakeProvider

QUERY = "/api/projects/42/query/"
STRUCTURED, TEXT = "toUnixTimestamp(created_at) as received_at", "select * from ("


async def ask(onb: Onboarding, body: Any) -> httpx2.Response:
    """Ask, whatever comes of it."""
    return await onb.owner.client.post(
        f"/v1/projects/{onb.project_id}/analytics/query",
        json=body,
        headers={"authorization": f"Bearer {onb.owner.secret}"},
    )


async def connected(world: World, provider: FakeProvider) -> Onboarding:
    onb = await onboard(world)
    await connect(onb, provider)
    return onb


def asked(provider: FakeProvider, part: str) -> list[dict[str, Any]]:
    return [body["query"] for body in provider.calls(QUERY) if part in body["query"]["query"]]


async def test_events_are_asked_of_the_provider_with_every_word_as_a_value(
    world: World, provider: FakeProvider
) -> None:
    onb = await connected(world, provider)
    provider.tables[STRUCTURED] = [["it's", '"pro"', 3, 2, 1], ["b", None, 1, 1, 1], ["c", '{"results": 1}', 1, 1, 1]]
    key, value = "pl{an}.'x", "%(x)s') or 1=1 --"
    body = {
        "source": "events",
        "select": [
            {"field": "event"},
            {"field": f"properties.{key}"},
            {"fn": "count", "as": "n"},
            {"fn": "unique", "field": "distinct_id", "as": "people"},
        ],
        "filters": [
            {"field": f"properties.{key}", "op": "neq", "value": value},
            {"field": f"properties.{key}", "op": "in", "value": [1, True, "x"]},
            {"field": "properties.n", "op": "gt", "value": 1.5},
            {"field": "properties.n", "op": "exists", "value": True},
            {"field": "event", "op": "contains", "value": "%"},
            {"field": "received_at", "op": "lte", "value": 7},
        ],
        "group_by": ["event", f"properties.{key}"],
        "order_by": [{"field": "n", "direction": "desc"}],
        "limit": 3,
    }
    answer = ok(await ask(onb, body))
    name = f"properties.{key}"
    assert answer["rows"] == [
        {"event": "it's", name: "pro", "n": 3, "people": 2},
        {"event": "b", name: None, "n": 1, "people": 1},
        {"event": "c", name: '{"results": 1}', "n": 1, "people": 1},
    ]
    assert (answer["evidence"]["source"], answer["truncated"]) == ("provider_cloud", False)
    [query] = asked(provider, STRUCTURED)
    for word in (key, value, "%(x)s", "it's"):
        assert word not in query["query"]
    values = query["values"]
    assert {value, key, "n", 1, 1.5, "%", 7, "x", 4} <= {item for item in values.values() if item is not True}
    assert "'Bool' and ifNull(e.k0, 'null') = 'true'" in query["query"]
    assert (values["since"], values["until"]) == (answer["evidence"]["from"], answer["evidence"]["to"])
    assert values["earliest"] == values["since"] - 86400


async def test_errors_and_deploys_stay_our_own(world: World, provider: FakeProvider) -> None:
    onb = await connected(world, provider)
    ok(await world.having(onb.dsn).post("/v1/logs/", {"level": "error", "message": "boom", "release": "1.0"}), 202)
    provider.fail[QUERY] = 500
    answer = ok(await ask(onb, {"source": "errors", "select": [{"field": "release"}]}))
    assert (answer["rows"], answer["evidence"]["source"]) == ([{"release": "1.0"}], "local")
    answer = ok(await ask(onb, {"source": "deploys", "select": [{"fn": "count", "as": "n"}]}))
    assert (answer["rows"], answer["evidence"]["source"]) == ([{"n": 0}], "local")


async def test_a_text_is_sent_inside_a_limit(world: World, provider: FakeProvider) -> None:
    """Without its comments, in one spelling; the columns are those that the provider names, each under a name once."""
    onb = await connected(world, provider)
    names = ["event", "n", "share", "good", "results", "n", "seen", "none"]
    provider.tables[TEXT] = [
        ["a", 3, 0.5, True, [1, {"results": 2}], "x", "2026-01-01T00:00:00Z", None],
        ["b", 4, 1, False, [], "y", 5, None],
    ]
    provider.columns[TEXT] = names
    text = "select event, '{since}' -- why\nfrom events where a = 'it''s'; "
    answer = ok(await ask(onb, {"query": text}))
    assert answer["rows"][0] == {
        "event": "a", "n": 3, "share": 0.5, "good": True, "results_2": '[1, {"results": 2}]', "n_2": "x",
        "seen": "2026-01-01T00:00:00Z", "none": None,
    }  # fmt: skip
    assert [(column["name"], column["type"]) for column in answer["columns"]] == [
        ("event", "string"), ("n", "integer"), ("share", "number"), ("good", "boolean"), ("results_2", "string"),
        ("n_2", "string"), ("seen", "json"), ("none", "json"),
    ]  # fmt: skip
    evidence = answer["evidence"]
    assert (evidence["source"], evidence["from"], evidence["params"]) == ("provider_cloud", 0, {})
    assert evidence["to"] == answer["freshness"]["as_of"] + 1
    [query] = asked(provider, TEXT)
    sent = "select event , '{since}' from events where a = 'it\\'s'"
    assert query["query"] == f"select * from (\n{sent}\n) limit {{most}}"
    assert query["values"]["most"] == 1001


async def test_more_than_a_thousand_rows_of_a_text_are_cut(world: World, provider: FakeProvider) -> None:
    onb = await connected(world, provider)
    provider.tables[TEXT] = [[number] for number in range(1001)]
    provider.columns[TEXT] = ["n"]
    answer = ok(await ask(onb, {"query": "select n from events"}))
    assert (answer["row_count"], answer["truncated"]) == (1000, True)


@pytest.mark.parametrize(
    "text",
    [
        "select * from system.users",
        "select * from url('http://169.254.169.254/')",
        "select * from events; drop table events",
        "select * from events settings max_execution_time = 0",
        "insert into events values (1)",
        "select * from events into outfile '/tmp/x'",
        "select " + "(" * 9000 + " from events",
        "select " + "tuple(" * 1000 + "1" + ")" * 1000 + " from events",
        "\\",
        "'",
    ],
)
async def test_a_text_that_is_more_than_one_select_is_never_sent(
    world: World, provider: FakeProvider, text: str
) -> None:
    onb = await connected(world, provider)
    answer = await ask(onb, {"query": text})
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["code"] == "invalid_payload"
    [fault] = error["details"]["invalid_fields"]
    assert fault["field"] == "query"
    assert fault["reason"].startswith("must ")
    assert asked(provider, TEXT) == []


BODIES = [{"query": "select * from events"}, {"source": "events", "select": [{"fn": "count", "as": "n"}]}]


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("status", [500, 403, 429])
async def test_a_failed_read_is_no_empty_answer(world: World, provider: FakeProvider, body: Any, status: int) -> None:
    onb = await connected(world, provider)
    provider.fail[QUERY] = status
    answer = await ask(onb, body)
    assert (answer.status_code, answer.json()["error"]["code"]) == RESTING.get(status, NO_READ)
    assert "rows" not in answer.json()


@pytest.mark.parametrize(("body", "member"), [(BODIES[0], "query"), (BODIES[1], "select")])
async def test_words_that_the_provider_refuses_are_the_callers_fault(
    world: World, provider: FakeProvider, body: Any, member: str
) -> None:
    """400 with the member, not 502: to ask again gives the same. A refusal of our own words stays a failed read."""
    onb = await connected(world, provider)
    provider.fail[QUERY] = 400
    error = refused(await ask(onb, body), 400, "invalid_payload")
    [fault] = error["details"]["invalid_fields"]
    assert fault["field"] == member
    assert "as the test wishes" not in str(error), "the provider's text is not passed on"
    provider.fail.clear()
    provider.rest = lambda _, __, path, ___, sent, ____: (
        (400, {"detail": "x"}) if path == QUERY and "max(created_at)" in sent["query"]["query"] else None
    )
    provider.tables |= {TEXT: [[1]], STRUCTURED: [[1]]}
    assert (await ask(onb, body)).status_code == 502


async def test_a_provider_that_does_not_answer_is_given_up_in_time(world: World, provider: FakeProvider) -> None:
    onb = await connected(world, provider)
    over = threading.Event()
    provider.fail[QUERY] = lambda _: over.wait(30)
    try:
        answer = await ask(onb, BODIES[0])
    finally:
        over.set()
    assert answer.status_code == 504, answer.text
    assert answer.json()["error"]["code"] == "upstream_timeout"


@pytest.mark.parametrize("rows", [[[1, 2, 3]], [[]], [7], [{"n": 1}], "x"])
async def test_rows_of_another_form_are_no_rows(world: World, provider: FakeProvider, rows: Any) -> None:
    onb = await connected(world, provider)
    provider.tables |= {TEXT: rows, STRUCTURED: rows}
    provider.columns[TEXT] = ["n"]
    for body in BODIES:
        answer = await ask(onb, body)
        assert answer.status_code == 502, f"{body} {answer.text}"
