"""Exported events of Sentry over HTTP: stored once in their cases, and counted for nothing else."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from scripts.foreign.samples import events as samples
from service.ingest.kept import COUNTERS, check_counters
from service.webhooks.testing import name_of
from statemachines.cases import case
from statemachines.runs.materiality import REQUIRED_TRUST
from tests.service.http.cases.test_case import listed, log
from tests.support.api import Person, World, at_once, ok, refused, without_request_id
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.sentry import PYTHON_EVENT, of_event

pytestmark = pytest.mark.shares_server

DAY = 86400
MINE = ("imported", "already_there", "too_old", "malformed")


def event(kind: str = "CartError", *, age: int = DAY, **members: Any) -> dict[str, Any]:
    """An event as an export has it, `age` seconds old by the clock of the service (see `send`)."""
    error = {"type": kind, "value": "The cart is gone", "stacktrace": {"frames": [{"filename": "cart.py",
             "function": kind, "in_app": True}]}}  # fmt: skip
    return {
        "event_id": uuid4().hex,
        "age": age,
        "level": "error",
        "environment": "production",
        "user": {"id": "u1"},
        "exception": {"values": [error]},
        **members,
    }


def dated(one: dict[str, Any], now: int) -> dict[str, Any]:
    """An event at its time."""
    return {"timestamp": now - one["age"], **one} if "age" in one else one


class Importing:
    """A project of a fresh owner, who imports into it."""

    def __init__(self, world: World, owner: Person, made: dict[str, Any]) -> None:
        self.world, self.owner, self.made = world, owner, made
        self.path = f"/v1/projects/{made['id']}/event-imports"

    async def send(self, *events: Any, state: str = "unresolved", **more: Any) -> dict[str, Any]:
        """Import events; an event that is text goes as it is."""
        [[now]] = await self.world.sql("select service_seconds()")
        texts = [one if isinstance(one, str) else json.dumps(dated(one, now)) for one in events]
        body = {"events": [{"event": text, "state": state} for text in texts], **more}
        return ok(await self.owner.post(self.path, body))

    async def case(self, case_id: str) -> dict[str, Any]:
        return ok(await self.owner.get(f"/v1/cases/{case_id}"))

    @property
    def dsn(self) -> Any:
        return self.world.having(self.made["dsn"])


@pytest.fixture
async def shop(world: World) -> Importing:
    owner = await world.sign_in()
    return Importing(world, owner, await owner.create_project())


def counts(told: dict[str, Any]) -> dict[str, int]:
    """The counts of an answer that are not 0."""
    found = {name: told[name] for name in MINE if told[name]}
    assert Counter(one["outcome"] for one in told["events"]) == Counter(found)
    return found


async def test_an_event_is_stored_once_at_its_own_time(shop: Importing) -> None:
    """By the id of the event, whichever batch it comes with, and long after the key of its first one is forgotten."""
    [[now]] = await shop.world.sql("select service_seconds()")
    old = event(timestamp=now - 20 * DAY)
    told = await shop.send(old, old)
    assert counts(told) == {"imported": 1, "already_there": 1}
    case_id = told["events"][0]["case_id"]
    await shop.world.wait(2 * DAY)
    await shop.world.sql("delete from idempotency where project_id = %s", shop.made["id"])
    assert counts(await shop.send(old)) == {"already_there": 1}
    record = await shop.case(case_id)
    assert (record["event_count"], record["users_affected"], record["trust"]) == (1, 1, "imported")
    assert record["first_occurred_at"] == record["last_occurred_at"] == old["timestamp"]
    [found] = ok(await shop.owner.get(f"/v1/cases/{case_id}/events"))["events"]
    assert (found["occurred_at"], found["dsn"]) == (old["timestamp"], "import")


async def test_an_import_is_no_usage_no_new_case_of_the_hour_and_tells_nobody(shop: Importing) -> None:
    told = await shop.send(*(event(f"Kind{number}") for number in range(5)))
    assert counts(told) == {"imported": 5}
    project_id = shop.made["id"]
    assert await shop.world.sql("select 1 from usage_days where project_id = %s", project_id) == []
    assert await shop.world.sql("select 1 from case_rates where project_id = %s and opened > 0", project_id) == []
    topics = await shop.world.sql(
        "select distinct topic, actor_kind from events where project_id = %s and kind = 'case'", project_id
    )
    assert topics == [(case.CaseImported.TOPIC, "key")]
    for imported in (case.CaseImported, case.CaseImportedResolved, case.CaseImportedIgnored):
        assert name_of(imported.TOPIC) is None
    health = ok(await shop.owner.get(f"/v1/projects/{project_id}/health"))
    assert (health["new_cases"]["opened"], health["events_last_hour"]) == (0, 0)


async def test_trust_ends_with_the_first_error_by_a_dsn(shop: Importing) -> None:
    """Before, no count of errors makes a case material. The error of a page or a server does."""
    sent = [event(age=number) for number in range(1, 30)]
    case_id = (await shop.send(*sent))["events"][0]["case_id"]
    record = await shop.case(case_id)
    assert (record["trust"], record["event_count"]) == ("imported", 29)
    assert record["trust"] != REQUIRED_TRUST
    assert [one["case_id"] for one in (await listed(shop.owner, shop.made["id"]))["cases"]] == [case_id]
    for trust, found in (("imported", 1), ("synthetic", 0), (REQUIRED_TRUST, 0)):
        assert (await listed(shop.owner, shop.made["id"], trust=trust, order="errors"))["count"] == found
        assert (await listed(shop.owner, shop.made["id"], trust=trust))["count"] == found
    alias = shop.made["sdks"]["sentry_dsn"]
    key = alias.split("//")[1].split("@")[0]
    live = of_event(event())
    headers = {"x-sentry-auth": f"Sentry sentry_key={key}, sentry_version=7"}
    path = "/api/" + alias.rsplit("/", 1)[1] + "/envelope/"
    ok(await shop.world.call("POST", path, content=live, headers=headers))
    record = await shop.case(case_id)
    assert (record["trust"], record["event_count"]) == (REQUIRED_TRUST, 30)


@pytest.mark.parametrize("state", ["unresolved", "resolved", "ignored"])
async def test_the_importing_person_sets_states_of_new_cases_alone(shop: Importing, state: str) -> None:
    """A later event of another state moves no case, and neither does one for a case that errors have opened."""
    told = await shop.send(event(), state=state)
    case_id, status = told["events"][0]["case_id"], {"unresolved": "open"}.get(state, state)
    assert (await shop.case(case_id))["status"] == status
    for other in ("ignored", "resolved", "unresolved"):
        assert counts(await shop.send(event(), state=other)) == {"imported": 1}
    record = await shop.case(case_id)
    assert (record["status"], record["revision"], record["event_count"]) == (status, 1, 4)
    [[actor]] = await shop.world.sql("select distinct actor_kind from events where stream_id = %s", case_id)
    assert actor == "key"
    live = (await log(shop.dsn, "boom"))["case_id"]
    native = {"event_id": uuid4().hex, "age": 60, "level": "error", "message": "boom"}
    assert (await shop.send(native, state="ignored"))["events"][0]["case_id"] == live
    record = await shop.case(live)
    assert (record["status"], record["trust"], record["event_count"]) == ("open", REQUIRED_TRUST, 2)


async def test_a_rule_of_the_project_closes_what_was_open_elsewhere(shop: Importing) -> None:
    rule = {"fingerprint_pattern": "*", "action": "auto_ignore"}
    ok(await shop.owner.post(f"/v1/projects/{shop.made['id']}/suppressions", rule), 201)
    record = await shop.case((await shop.send(event()))["events"][0]["case_id"])
    assert record["status"] == "ignored"
    assert record["suppression_id"]


async def test_what_is_older_than_the_retention_or_no_event_is_counted(shop: Importing) -> None:
    days = (await shop.send(event(), dry_run=True))["retention_days"]
    told = await shop.send(
        event(age=(days + 1) * DAY), event(age=(days - 1) * DAY), "[1]", "{]", event(event_id="x"),
        event(timestamp=None),
    )  # fmt: skip
    assert counts(told) == {"too_old": 1, "imported": 1, "malformed": 4}
    assert all(one["reason"] for one in told["events"] if one["outcome"] == "malformed")
    query = "select service_seconds() - min(occurred_at) from log_events where project_id = %s"
    [[age]] = await shop.world.sql(query, shop.made["id"])
    assert (days - 1) * DAY <= age < days * DAY


async def test_a_dry_run_stores_nothing(shop: Importing) -> None:
    told = await shop.send(event(), dry_run=True)
    assert (counts(told), told["dry_run"], told["events"][0]["case_id"]) == ({"imported": 1}, True, None)
    assert await shop.world.telemetry(shop.made["id"]) == 0


async def test_an_event_of_the_sdk_that_came_already_is_the_same(shop: Importing) -> None:
    alias = shop.made["sdks"]["sentry_dsn"]
    key = alias.split("//")[1].split("@")[0]
    [[now]] = await shop.world.sql("select service_seconds()")
    sent = {**PYTHON_EVENT, "event_id": uuid4().hex, "timestamp": now}
    headers = {"x-sentry-auth": f"Sentry sentry_key={key}, sentry_version=7"}
    path = "/api/" + alias.rsplit("/", 1)[1] + "/envelope/"
    ok(await shop.world.call("POST", path, content=of_event(sent), headers=headers))
    assert counts(await shop.send(sent)) == {"already_there": 1}


async def test_bad_bodies_are_refused(shop: Importing) -> None:
    good = {"event": json.dumps(event())}
    for body in (
        {}, {"events": []}, {"events": [good], "more": 1}, {"events": [{**good, "state": "muted"}]},
        {"events": [good] * 101}, {"events": [{"event": event()}]}, {"events": [{**good, "id": 1}]},
    ):  # fmt: skip
        refused(await shop.owner.post(shop.path, body), 400, "invalid_payload")
    assert await shop.world.telemetry(shop.made["id"]) == 0


async def test_only_owners_of_the_project_import(shop: Importing) -> None:
    body = {"events": [{"event": json.dumps(event())}]}
    stranger, path = await shop.world.sign_in(), f"/v1/projects/proj_{'0' * 26}/event-imports"
    foreign, absent = await stranger.post(shop.path, body), await stranger.post(path, body)
    refused(foreign, 404, "project_not_found")
    assert without_request_id(foreign) == without_request_id(absent)
    refused(await shop.dsn.post(shop.path, body), 403, "principal_not_allowed")
    refused(await shop.world.post(shop.path, body), 401, "unauthenticated")
    assert await shop.world.telemetry(shop.made["id"]) == 0


async def test_one_event_in_many_racing_batches_is_stored_once(shop: Importing) -> None:
    one = event()
    told = await at_once(12, lambda _: shop.send(one, event("Other")))
    assert sum(part["imported"] for part in told) == 13
    found = ok(await shop.owner.get(f"/v1/projects/{shop.made['id']}/cases", params={"status": "all"}))["cases"]
    assert sorted(one["event_count"] for one in found) == [1, 12]


async def test_nothing_is_imported_after_the_end_of_the_key(world: World) -> None:
    """Batches come in a tight loop while another key of the person ends the one they come with."""
    worker, owner = await world.sign_in("importer"), await world.sign_in("importer")
    shop = Importing(world, worker, await worker.create_project())
    ids = {key["key_prefix"]: key["id"] for key in ok(await owner.get("/v1/keys"))["keys"]}
    [[now]] = await world.sql("select service_seconds()")
    stored, begun = 0, asyncio.Event()

    async def work() -> None:
        nonlocal stored
        while True:
            answer = await worker.post(shop.path, {"events": [{"event": json.dumps(dated(event(), now))}]})
            if answer.status_code != 200:
                refused(answer, 401, "unauthenticated")
                return
            stored += 1
            begun.set()

    workers = [asyncio.create_task(work()) for _ in range(6)]
    await begun.wait()
    ok(await owner.post(f"/v1/keys/{ids[worker.secret[:16]]}/revoke"))
    count = "select count(*) from log_events where project_id = %s"
    [[before]] = await world.sql(count, shop.made["id"])
    await asyncio.gather(*workers)
    [[after]] = await world.sql(count, shop.made["id"])
    assert before == after == stored


async def test_the_public_samples_are_imported(shop: Importing) -> None:
    """Events as the SDKs of many platforms sent them: all are taken, those of one error into one case."""
    found = list(samples().values())
    ids = [uuid4().hex for _ in found]
    for at in range(0, len(found), 100):
        batch = [
            {
                "age": 3600,
                **{name: inner for name, inner in one.items() if name != "timestamp"},
                "event_id": ids[at + place],
            }
            for place, one in enumerate(found[at : at + 100])
        ]
        assert set(counts(await shop.send(*batch))) == {"imported"}
    with psycopg.connect(shop.world.server.database_url, autocommit=True) as connection:
        differing = [one for table in COUNTERS for one in check_counters(connection, table)]
    assert [one for one in differing if one.project_id == shop.made["id"]] == []
    assert await shop.world.sql(
        "select count(*), count(case_id) > 0 from log_events where project_id = %s", shop.made["id"]
    ) == [(len(found), True)]
    await shop.world.wait(400 * DAY)
    assert (await shop.send(*found[:100]))["imported"] == 0
