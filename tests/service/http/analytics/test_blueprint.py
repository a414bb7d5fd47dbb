"""Query blueprints over HTTP: the catalogue, runs, keys, CSV, and who may (R-QRY-06, R-QRY-07, G-065, G-151, G-152)."""

from __future__ import annotations

import asyncio
import csv
import io
import re
from typing import Any

import jsonschema
import pytest
import pytest_asyncio

from service.analytics.blueprints.asking import CATALOGUE
from service.eventstore.connect.facts import DAY
from tests.service.http.projects.test_project import add_member
from tests.support.api import Api, Person, World, ok, refused
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)

pytestmark = pytest.mark.shares_server

LIST = "/v1/query-blueprints"
MEMBERS = {
    "project_id",
    "blueprint_id",
    "rows",
    "columns",
    "row_count",
    "truncated",
    "evidence",
    "freshness",
    "next_action",
}


class Shop:
    """A project whose product sends events."""

    def __init__(self, world: World, owner: Person, project: dict[str, Any]) -> None:
        self.world = world
        self.owner = owner
        self.project_id: str = project["id"]
        self.dsn = Api(world.client, project["dsn"])

    def path(self, blueprint_id: str = "event-count") -> str:
        return f"/v1/projects/{self.project_id}/query-blueprints/{blueprint_id}/run"

    async def send(self, event: str, person: str = "ann") -> dict[str, Any]:
        return ok(await self.dsn.post("/v1/analytics/", {"event": event, "distinct_id": person}), 202)

    async def run(self, blueprint_id: str, body: Any = None, **more: Any) -> dict[str, Any]:
        return ok(await self.owner.post(self.path(blueprint_id), body, **more))


@pytest_asyncio.fixture
async def shop(world: World) -> Shop:
    owner = await world.sign_in()
    return Shop(world, owner, await owner.create_project())


async def test_the_catalogue_shows_every_blueprint_whole(world: World) -> None:
    """List and detail have one shape; a schema of parameters is one of 2020-12."""
    person = await world.sign_in()
    listed = ok(await person.get(LIST))
    assert listed["count"] == len(listed["blueprints"]) == len(CATALOGUE)
    assert listed["next_action"]
    for item in listed["blueprints"]:
        assert ok(await person.get(f"{LIST}/{item['blueprint_id']}")) == item
        assert item["version"] == "1.0.0"
        assert item["params_schema"]["$schema"] == "https://json-schema.org/draft/2020-12/schema"
        jsonschema.Draft202012Validator.check_schema(item["params_schema"])
        assert {frozenset(column) for column in item["columns"]} == {frozenset({"name", "type", "unit", "description"})}
        assert item["endpoints"] == {
            "detail": f"{LIST}/{item['blueprint_id']}",
            "run": f"/v1/projects/{{project_id}}/query-blueprints/{item['blueprint_id']}/run",
        }


@pytest.mark.parametrize("blueprint_id", ["unknown", "Event-Count", "event_count"])
async def test_what_is_no_blueprint_is_not_found(shop: Shop, blueprint_id: str) -> None:
    """Its id is case-sensitive; a malformed body is told of before that (G-007)."""
    refused(await shop.owner.get(f"{LIST}/{blueprint_id}"), 404, "blueprint_not_found")
    refused(await shop.owner.post(shop.path(blueprint_id), {}), 404, "blueprint_not_found")
    refused(await shop.owner.post(shop.path(blueprint_id), {"more": 1}), 400, "invalid_payload")


async def test_what_was_acknowledged_before_is_counted(shop: Shop) -> None:
    """Each time, at once and exactly."""
    for number in range(1, 6):
        sent = await shop.send("order_paid", f"person-{number % 2}")
        answer = await shop.run("event-count", {"params": {"event": "order_paid"}})
        assert answer["rows"] == [{"row_count": number, "unique_users": min(number, 2)}]
        assert answer["freshness"]["last_event_at"] == sent["received_at"]
        assert 0 <= answer["freshness"]["lag_seconds"] == answer["freshness"]["as_of"] - sent["received_at"]


async def test_an_answer_has_rows_columns_evidence_and_freshness(shop: Shop) -> None:
    """R-GEN-04, R-GEN-05: `rows` and `columns`, and no key `results` at any depth."""
    await shop.send("order_paid")
    reply = await shop.owner.post(shop.path("top-events"), {})
    answer = ok(reply)
    assert set(answer) == MEMBERS
    assert "results" not in reply.text
    assert answer["row_count"] == len(answer["rows"]) == 1
    assert [column["name"] for column in answer["columns"]] == list(answer["rows"][0])
    evidence = answer["evidence"]
    assert set(evidence) == {"source", "from", "to", "params", "complete", "kept_from", "query_receipt_sha256"}
    assert (evidence["source"], evidence["complete"]) == ("local", True)
    assert evidence["params"] == {"days": 30, "limit": 20}
    assert evidence["to"] - evidence["from"] == 30 * DAY
    assert evidence["to"] == answer["freshness"]["as_of"] + 1
    assert re.fullmatch("[0-9a-f]{64}", evidence["query_receipt_sha256"])
    timing = reply.headers["server-timing"]
    assert re.fullmatch(r'wait;desc="[a-z ]+";dur=[0-9.]+, db;desc="[a-z ]+";dur=[0-9.]+', timing)
    assert reply.headers["cache-control"] == "no-store"


async def test_an_absent_body_is_an_empty_one(shop: Shop) -> None:
    """G-003: what has defaults for everything runs without a word, and what needs a parameter says so."""
    assert (await shop.run("top-events"))["rows"] == []
    details = refused(await shop.owner.post(shop.path()), 400, "invalid_payload")["details"]
    assert details["missing_fields"] == ["params.event"]
    assert set(details["request_body_schema"]["properties"]) == {"params", "from", "to", "limit"}


@pytest.mark.parametrize(
    ("body", "member"),
    [
        ({"params": []}, "params"),
        ({"params": None}, "params"),
        ({"params": {"event": 1}}, "params.event"),
        ({"params": {"event": ""}}, "params.event"),
        ({"params": {"event": "a", "days": 91}}, "params.days"),
        ({"params": {"event": "a", "days": "7"}}, "params.days"),
        ({"params": {"event": "a", "days": 7}, "from": 1}, "params.days"),
        ({"params": {"event": "a", "days": 7}, "to": 1}, "params.days"),
        ({"params": {"event": "a"}, "limit": 0}, "limit"),
        ({"params": {"event": "a"}, "limit": 10_001}, "limit"),
        ({"params": {"event": "a"}, "from": -1}, "from"),
        ({"params": {"event": "a"}, "from": 1.5}, "from"),
        ({"params": {"event": "a"}, "from": 2000, "to": 2000}, "from"),
        ({"params": {"event": "a"}, "from": 0, "to": 367 * DAY}, "from"),
        ({"params": {"event": "a"}, "from": 9_007_199_254_740_991}, "from"),
        ({"params": {"event": "a"}, "more": 1}, "more"),
        ({"params": {"event": "a" * 201}}, "params.event"),
    ],
)
async def test_a_bad_body_is_named(shop: Shop, body: Any, member: str) -> None:
    details = refused(await shop.owner.post(shop.path(), body), 400, "invalid_payload")["details"]
    named = [*details["missing_fields"], *details["unknown_fields"]]
    assert [*named, *(found["field"] for found in details["invalid_fields"])] == [member]
    assert details["request_body_schema"]


async def test_an_unknown_parameter_is_ignored_and_not_said_to_count(shop: Shop) -> None:
    """G-003: the inside of params is tolerant, so the answer says what it went by."""
    answer = await shop.run("event-count", {"params": {"event": "a", "environment": "x", "days": 7.0}})
    assert answer["evidence"]["params"] == {"days": 7, "event": "a"}


async def test_rows_beyond_the_limit_are_left_out_and_that_is_said(shop: Shop) -> None:
    for event in "abc":
        await shop.send(event)
    answer = await shop.run("top-events", {"limit": 2})
    assert (answer["row_count"], answer["truncated"]) == (2, True)
    assert "limit" in answer["next_action"]


async def test_people_of_the_project_ask_and_nobody_else(shop: Shop) -> None:
    """Members do; strangers find no project, and what a project is known by is no person."""
    stranger = await shop.world.sign_in()
    member = await add_member(shop.world, shop.project_id, "answers-member")
    body = {"params": {"event": "a"}}
    assert ok(await member.post(shop.path(), body))["row_count"] == 1
    refused(await stranger.post(shop.path(), body), 404, "project_not_found")
    refused(await member.having(None).post(shop.path(), body), 401, "unauthenticated")
    refused(await shop.dsn.post(shop.path(), body), 403, "principal_not_allowed")
    credential = await shop.owner.create_credential(shop.project_id, "k")
    refused(await shop.owner.having(credential["credential"]).post(shop.path(), body), 403, "principal_not_allowed")
    refused(await member.having(None).get(LIST), 401, "unauthenticated")


@pytest.mark.parametrize(
    "name",
    [
        "'; drop table analytics_events; --",
        "%(project_id)s",
        "%s",
        "{since}",
        "\\",
        '"',
        "a\u2028b",
        "😀" * 100,
        "$pageview",
        "' or project_id <> '",
    ],
)
async def test_a_name_is_a_value_whatever_it_says(shop: Shop, name: str) -> None:
    """SQL in a parameter counts the events that are called so, and nothing else."""
    other = Shop(shop.world, shop.owner, await shop.owner.create_project("other"))
    for sender in (shop, other):
        await sender.send(name)
        await sender.send("order_paid")
    assert (await shop.run("event-count", {"params": {"event": name}}))["rows"] == [{"row_count": 1, "unique_users": 1}]
    asked = await shop.run("errors-by-release", {"params": {"environment": name}})
    assert asked["rows"] == []


async def test_a_name_with_nul_is_refused(shop: Shop) -> None:
    refused(await shop.owner.post(shop.path(), {"params": {"event": "a\x00"}}), 400, "invalid_payload")


async def test_another_projects_rows_are_never_counted(shop: Shop) -> None:
    other = Shop(shop.world, shop.owner, await shop.owner.create_project("other"))
    await other.send("order_paid")
    assert (await shop.run("event-count", {"params": {"event": "order_paid"}}))["rows"][0]["row_count"] == 0
    assert (await shop.run("top-events"))["freshness"]["last_event_at"] is None


async def test_what_was_answered_under_a_key_is_answered_again(shop: Shop) -> None:
    """Whatever came since; another body is another request, and a refusal leaves no trace (G-008)."""
    body = {"params": {"event": "order_paid"}}
    refused(await shop.owner.post(shop.path(), {"params": {}}, key="one"), 400, "invalid_payload")
    first = await shop.owner.post(shop.path(), body, key="one")
    await shop.send("order_paid")
    second = await shop.owner.post(shop.path(), body, key="one")
    assert second.headers["idempotent-replayed"] == "true"
    assert ok(second) == ok(first)
    refused(await shop.owner.post(shop.path(), {"params": {"event": "b"}}, key="one"), 422, "idempotency_key_reused")
    assert (await shop.run("event-count", body))["rows"][0]["row_count"] == 1


async def test_of_a_large_answer_only_the_key_is_bound(shop: Shop) -> None:
    """G-151: more than 64 KiB is not stored; a repeat reads anew, and another body is another request all the same."""
    await shop.world.sql(
        "insert into analytics_events (project_id, received_at, id, event, distinct_id, properties) "
        "select %s, service_seconds(), 'evt_' || n, repeat('e', 190) || n, 'ann', '{}' from generate_series(1, 400) n",
        shop.project_id,
    )
    body = {"params": {"limit": 200}}
    wide = {**body, "limit": 200}
    assert len((await shop.owner.post(shop.path("top-events"), wide)).content) < 64 * 1024
    many = {"params": {"limit": 200, "days": 90}}
    await shop.world.sql(
        "update analytics_events set event = repeat('f', 500) || event where project_id = %s", shop.project_id
    )
    first = await shop.owner.post(shop.path("top-events"), many, key="large")
    assert len(first.content) > 64 * 1024
    await shop.send("a")
    [[stored]] = await shop.world.sql(
        "select count(*) from idempotency where project_id = %s and key = 'large' and status is null", shop.project_id
    )
    assert stored == 1
    second = await shop.owner.post(shop.path("top-events"), many, key="large")
    assert "idempotent-replayed" not in second.headers
    assert second.json()["freshness"]["last_event_at"] >= first.json()["freshness"]["last_event_at"]
    assert second.json()["row_count"] == 200
    refused(await shop.owner.post(shop.path("top-events"), {}, key="large"), 422, "idempotency_key_reused")


async def test_one_key_used_twice_at_once_has_one_answer(shop: Shop) -> None:
    """Both readers may have counted; what the first stored is what both are told."""
    body = {"params": {"event": "order_paid"}}
    both = await asyncio.gather(*(shop.owner.post(shop.path(), body, key="twin") for _ in range(8)))
    told = {answer.status_code for answer in both}
    assert told <= {200, 409}
    assert len({answer.text for answer in both if answer.status_code == 200}) == 1


@pytest.mark.parametrize("key", [None, "csv"])
async def test_the_same_rows_as_csv(shop: Shop, key: str | None) -> None:
    """A text that a spreadsheet would take for a formula is one no more; numbers stay numbers."""
    names = ["=1+1", "+a", "-1", "@sum(a)", "\tb", "\rc", 'a "quoted", one', "plain"]
    for name in names:
        await shop.send(name)
    told = await shop.run("top-events", {}, key=key)
    reply = await shop.owner.post(shop.path("top-events"), {}, key=key, headers={"accept": "text/csv"})
    assert reply.headers["content-type"] == "text/csv; charset=utf-8; header=present"
    head, *rows = csv.reader(io.StringIO(reply.text, newline=""))
    assert head == [column["name"] for column in told["columns"]]
    assert [row[1:] for row in rows] == [[str(row[name]) for name in head[1:]] for row in told["rows"]]
    assert sorted(row[0] for row in rows) == sorted(f"'{name}" if name[0] in "=+-@\t\r" else name for name in names)
    refusal = await shop.owner.post(shop.path(), {}, headers={"accept": "text/csv"})
    refused(refusal, 400, "invalid_payload")
    plain = await shop.owner.post(shop.path("top-events"), {}, headers={"accept": "application/json, text/csv;q=0.5"})
    assert ok(plain)["row_count"] == len(names)


async def test_a_fenced_project_can_still_be_asked(shop: Shop) -> None:
    """A run changes nothing: it is open to people until the purge, with a key too (G-131, G-151)."""
    await shop.send("order_paid")
    await shop.world.sql("update projects set status = 'deleting' where id = %s", shop.project_id)
    body = {"params": {"event": "order_paid"}}
    for key in (None, "fenced"):
        assert (await shop.run("event-count", body, key=key))["rows"][0]["row_count"] == 1


async def test_over_the_quota_it_is_open_with_a_notice(world: World) -> None:
    """Counted rows are core reads (R-BILL-13)."""
    owner = await world.sign_in()
    await world.sql(
        "insert into usage_days (project_id, account_id, day, errors, analytics, suppressed, scrubbed, "
        "last_received_at) values ('proj_' || gen_random_uuid(), %s, service_today(), 0, 1000000, 0, 0, 1)",
        owner.user_id,
    )
    shop = Shop(world, owner, await owner.create_project())
    answer = await shop.run("event-count", {"params": {"event": "order_paid"}})
    assert answer["billing_notice"]["should_notify_human"]
    assert set(answer) - {"billing_notice"} == MEMBERS
    reply = await owner.post(shop.path("top-events"), {}, headers={"accept": "text/csv"})
    assert reply.text == "event,row_count,unique_users,last_seen_at\r\n"


async def test_a_window_before_what_the_plan_keeps_is_not_whole(shop: Shop) -> None:
    """It is told, with the first second that is kept; a paid plan keeps more (G-152)."""
    body = {"params": {"event": "order_paid", "days": 60}}
    answer = await shop.run("event-count", body)
    as_of = answer["freshness"]["as_of"]
    assert answer["evidence"]["complete"] is False
    assert answer["evidence"]["kept_from"] == as_of - as_of % DAY - 30 * DAY
    await shop.world.sql(
        "insert into subscriptions (project_id, id, revision, subscription_id, customer_id, status, plan, created_at, "
        "updated_at) values (%s, %s, 1, %s, 'cus_1', 'active', 'pro', 1, 1)",
        shop.owner.user_id,
        f"sub_{shop.project_id}",
        f"sub_{shop.project_id}",
    )
    paid = await shop.run("event-count", body)
    assert (paid["evidence"]["complete"], paid["evidence"]["kept_from"]) == (True, as_of - as_of % DAY - 90 * DAY)
