"""Analytics queries over HTTP: both forms, keys, CSV, and who may (R-QRY-06, R-QRY-07, G-066, G-151, G-154)."""

from __future__ import annotations

import csv
import io
import re
from typing import Any

import pytest
import pytest_asyncio

from service.eventstore.connect.facts import DAY
from tests.service.http.projects.test_project import add_member
from tests.support.api import Api, Person, World, ok, refused
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)

pytestmark = pytest.mark.shares_server

MEMBERS = {"project_id", "rows", "columns", "row_count", "truncated", "evidence", "freshness", "next_action"}
EVENTS = {"source": "events", "select": [{"field": "event"}]}
COUNT = {"source": "events", "select": [{"fn": "count", "as": "n"}]}


class Shop:
    """A project whose product sends events."""

    def __init__(self, world: World, owner: Person, project: dict[str, Any]) -> None:
        self.world = world
        self.owner = owner
        self.project_id: str = project["id"]
        self.path = f"/v1/projects/{self.project_id}/analytics/query"
        self.dsn = Api(world.client, project["dsn"])

    async def send(self, event: str, person: str = "ann", **properties: Any) -> dict[str, Any]:
        body = {"event": event, "distinct_id": person, "properties": properties}
        return ok(await self.dsn.post("/v1/analytics/", body), 202)

    async def ask(self, body: Any, **more: Any) -> dict[str, Any]:
        return ok(await self.owner.post(self.path, body, **more))


@pytest_asyncio.fixture
async def shop(world: World) -> Shop:
    owner = await world.sign_in()
    return Shop(world, owner, await owner.create_project())


async def test_an_answer_has_rows_columns_evidence_and_freshness(shop: Shop) -> None:
    """Of whatever was acknowledged before, at once (R-GEN-04, R-GEN-05)."""
    sent = await shop.send("paid", plan={"results": [1]}, price=9.5)
    reply = await shop.owner.post(
        shop.path,
        {"source": "events", "select": [{"field": "id"}, {"field": "properties.price"}, {"field": "properties.plan"}]},
    )
    answer = ok(reply)
    assert set(answer) == MEMBERS
    assert answer["rows"] == [
        {"id": sent["id"], "properties.price": 9.5, "properties.plan": '{"results": [1]}'},
    ]
    assert [column["name"] for column in answer["columns"]] == list(answer["rows"][0])
    assert [column["type"] for column in answer["columns"]] == ["string", "json", "json"]
    assert (answer["row_count"], answer["truncated"]) == (1, False)
    evidence = answer["evidence"]
    assert (evidence["source"], evidence["complete"], evidence["params"]) == ("local", True, {})
    assert evidence["to"] - evidence["from"] == 30 * DAY
    assert re.fullmatch("[0-9a-f]{64}", evidence["query_receipt_sha256"])
    assert answer["freshness"]["last_event_at"] == sent["received_at"]
    assert re.match(r"wait;desc=", reply.headers["server-timing"])
    assert reply.headers["cache-control"] == "no-store"


async def test_errors_and_deploys_are_sources_too(shop: Shop) -> None:
    boom = {
        "level": "error",
        "message": "secret words",
        "release": "1.0",
        "tags": {"area": "till"},
        "user": {"id": "ann"},
    }
    ok(await shop.dsn.post("/v1/logs/", boom), 202)
    ok(await shop.dsn.post("/v1/logs/", {"message": "note", "level": "info"}), 202)
    select = [{"field": "release"}, {"field": "tags.area"}, {"fn": "unique", "field": "user_id", "as": "people"}]
    answer = await shop.ask({"source": "errors", "select": select, "group_by": ["release", "tags.area"]})
    assert answer["rows"] == [{"release": "1.0", "tags.area": "till", "people": 1}]
    ok(await shop.dsn.post("/v1/deploys", {"version": "1.0", "environment": "production"}), 202)
    answer = await shop.ask({"source": "deploys", "select": [{"field": "version"}, {"field": "trusted"}]})
    assert answer["rows"] == [{"version": "1.0", "trusted": False}]


@pytest.mark.parametrize(
    ("body", "members"),
    [
        (None, ["source", "select"]),
        ({}, ["source", "select"]),
        ({"query": ""}, ["query"]),
        ({"query": "select * from events", **EVENTS}, ["query"]),
        ({"query": "select * from events", "limit": 5}, ["query"]),
        ({**EVENTS, "join": "x"}, ["join"]),
        ({**EVENTS, "source": "cases"}, ["source"]),
        ({**EVENTS, "select": [{"field": "message"}]}, ["select[0].field"]),
        ({**EVENTS, "select": [{"fn": "sum", "field": "id", "as": "n"}]}, ["select[0].fn"]),
        ({**EVENTS, "select": [{"field": "id", "more": 1}]}, ["select[0].more"]),
        ({**EVENTS, "filters": [{"field": "id", "op": "like", "value": "x"}]}, ["filters[0].op"]),
        ({**EVENTS, "filters": [{"field": "id", "op": "eq", "value": None}]}, ["filters[0].value"]),
        ({**EVENTS, "filters": [{"field": "id", "op": "in", "value": []}]}, ["filters[0].value"]),
        ({**EVENTS, "limit": 10_001}, ["limit"]),
        ({**EVENTS, "from": 2000, "to": 2000}, ["from"]),
        ({**EVENTS, "from": 0, "to": 367 * DAY}, ["from"]),
        ({"source": "errors", "select": [{"field": "extra"}]}, ["select[0].field"]),
    ],
)
async def test_a_bad_body_is_named(shop: Shop, body: Any, members: list[str]) -> None:
    details = refused(await shop.owner.post(shop.path, body), 400, "invalid_payload")["details"]
    named = [*details["missing_fields"], *details["unknown_fields"]]
    assert [*named, *(found["field"] for found in details["invalid_fields"])] == members
    assert set(details["request_body_schema"]["properties"]) >= {"source", "select", "query"}


@pytest.mark.parametrize("text", ["select * from events", "select * from system.users", "no sql", "x" * 20_000])
async def test_a_text_without_a_connection_is_refused(shop: Shop, text: str) -> None:
    """Whatever it says: nothing of our own is ever asked in a caller's words."""
    refusal = refused(await shop.owner.post(shop.path, {"query": text}), 400, "invalid_payload")
    assert [found["field"] for found in refusal["details"]["invalid_fields"]] == ["query"]
    assert "provider" in refusal["message"]


async def test_a_null_character_is_refused_everywhere(shop: Shop) -> None:
    bodies: list[Any] = [
        {"source": "events", "select": [{"field": "properties.\0"}]},
        {**EVENTS, "filters": [{"field": "id", "op": "eq", "value": "\0"}]},
        {**EVENTS, "filters": [{"field": "id", "op": "in", "value": ["\0"]}]},
        {"query": "select '\0' from events"},
    ]
    for body in bodies:
        refused(await shop.owner.post(shop.path, body), 400, "invalid_payload")


async def test_people_of_the_project_ask_and_nobody_else(shop: Shop) -> None:
    stranger = await shop.world.sign_in()
    member = await add_member(shop.world, shop.project_id, "query-member")
    assert ok(await member.post(shop.path, COUNT))["rows"] == [{"n": 0}]
    refused(await stranger.post(shop.path, COUNT), 404, "project_not_found")
    refused(await stranger.post(shop.path, {"query": "select * from events"}), 404, "project_not_found")
    refused(await member.having(None).post(shop.path, COUNT), 401, "unauthenticated")
    refused(await shop.dsn.post(shop.path, COUNT), 403, "principal_not_allowed")
    credential = await shop.owner.create_credential(shop.project_id, "k")
    refused(await shop.owner.having(credential["credential"]).post(shop.path, COUNT), 403, "principal_not_allowed")


@pytest.mark.parametrize("text", ["'", "') or true --", "%(project_id)s", "proj_%", "\\", "{since}", "$1"])
async def test_no_words_reach_another_projects_rows(shop: Shop, text: str) -> None:
    other = Shop(shop.world, shop.owner, await shop.owner.create_project("other"))
    await other.send("paid", text, **{text: text, "project": other.project_id})
    name = f"properties.{text}"
    for field in ("event", "distinct_id", "id", name):
        for op, value in (("neq", text), ("eq", text), ("in", [text]), ("contains", text), ("exists", True)):
            filters = [{"field": field, "op": op, "value": value}]
            body = {"source": "events", "select": [{"field": field}], "filters": filters}
            assert (await shop.ask(body))["rows"] == []
    assert (await shop.ask({**COUNT, "group_by": [name]}))["rows"] == []


async def test_what_was_answered_under_a_key_is_answered_again(shop: Shop) -> None:
    """Whatever came since; another body is another request, and a refusal leaves no trace (G-008)."""
    refused(await shop.owner.post(shop.path, {}, key="one"), 400, "invalid_payload")
    first = await shop.owner.post(shop.path, COUNT, key="one")
    await shop.send("paid")
    second = await shop.owner.post(shop.path, COUNT, key="one")
    assert second.headers["idempotent-replayed"] == "true"
    assert ok(second) == ok(first)
    refused(await shop.owner.post(shop.path, EVENTS, key="one"), 422, "idempotency_key_reused")
    assert (await shop.ask(COUNT))["rows"] == [{"n": 1}]


async def test_the_same_rows_as_csv(shop: Shop) -> None:
    await shop.send("=1+1", price=5)
    await shop.send("plain", price="5")
    body = {**EVENTS, "select": [{"field": "event"}, {"field": "properties.price"}, {"field": "properties.none"}]}
    reply = await shop.owner.post(shop.path, body, headers={"accept": "text/csv"})
    assert reply.headers["content-type"].startswith("text/csv")
    head, *rows = csv.reader(io.StringIO(reply.text, newline=""))
    assert head == ["event", "properties.price", "properties.none"]
    assert sorted(rows) == [["'=1+1", "5", ""], ["plain", "5", ""]]


async def test_a_fenced_project_can_still_be_asked(shop: Shop) -> None:
    """It changes nothing (G-131, G-151)."""
    await shop.send("paid")
    await shop.world.sql("update projects set status = 'deleting' where id = %s", shop.project_id)
    for key in (None, "fenced"):
        assert (await shop.ask(COUNT, key=key))["rows"] == [{"n": 1}]


async def test_many_groups_are_cut_and_that_is_said(shop: Shop) -> None:
    await shop.world.sql(
        "insert into analytics_events (project_id, received_at, id, event, distinct_id, properties) "
        "select %s, service_seconds(), 'evt_' || n, 'e', 'p' || n, '{}' from generate_series(1, 10000) n",
        shop.project_id,
    )
    body = {"source": "events", "select": [{"field": "distinct_id"}], "group_by": ["distinct_id"]}
    answer = await shop.ask({**body, "limit": 10_000})
    assert (answer["row_count"], answer["truncated"]) == (10_000, False)
    answer = await shop.ask(body)
    assert (answer["row_count"], answer["truncated"]) == (1000, True)
    assert "limit" in answer["next_action"]
