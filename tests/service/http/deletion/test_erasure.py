"""The deletion of a person over HTTP: to the receipt, for whom, what stays as it was, and who comes after (G-197)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from service.accounts import membership as admin
from service.analytics.local import LocalAnalytics, RepairedCase, count_recurrences
from service.analytics.metadata import TrafficProbe
from service.eventstore.store import EventStore
from service.http.edge.routes import all_endpoints
from service.ingest.kept import COUNTERS, check_counters
from service.runs.looking import ENVIRONMENTS_KEPT, observed_in
from statemachines.accounts.membership import Role
from tests.support import archives
from tests.support.api import Api, Person, World, ok, refused
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.ending import holding, problems

pytestmark = pytest.mark.shares_server

CANARY = "canary-5b1e"
ANN, ANON, BOB = f"ann-{CANARY}", f"anon-{CANARY}", "bob"


class Product:
    """A project in which somebody has left something everywhere, under two names, and somebody else, too."""

    def __init__(self, world: World, owner: Person, made: dict[str, Any]) -> None:
        self.world, self.owner = world, owner
        self.id: str = made["id"]
        self.dsn = Api(world.client, made["dsn"])

    def path(self, name: str = ANN) -> str:
        return f"/v1/projects/{self.id}/users/{quote(name, safe='')}"

    async def track(self, event: str, name: str, **properties: Any) -> None:
        body = {"event": event, "distinct_id": name, "properties": properties}
        ok(await self.dsn.post("/v1/analytics/", body), 202)

    async def err(self, message: str, name: str, **members: Any) -> str:
        user = {"id": name, "email": f"{name}@example.com"}
        sent = ok(
            await self.dsn.post("/v1/logs/", {"level": "error", "message": message, "user": user, **members}), 202
        )
        return str(sent["case_id"])

    async def leave_traces(self) -> str:
        """Leave something under both names; returns the case that both met, the last time ANN."""
        await self.track("page", ANON, note=CANARY)
        await self.track("$identify", ANN, **{"$anon_distinct_id": ANON, "$set": {"mail": f"{CANARY}@example.com"}})
        await self.track("page", ANN, note=CANARY)
        await self.track("page", BOB)
        await self.err("boom", BOB)
        await self.err("boom", ANON, level="info", extra={"note": CANARY})
        await self.err("boom", ANON, extra={"note": CANARY})
        return await self.err("boom", ANN, tags={"note": CANARY})

    async def delete(self, name: str = ANN, key: str = "k", by: Person | None = None) -> dict[str, Any]:
        """Repeat the request until the receipt is there."""
        for _ in range(200):
            answer = await (by or self.owner).call("DELETE", self.path(name), key=key)
            assert answer.status_code in {200, 202}, answer.text
            found: dict[str, Any] = answer.json()
            if answer.status_code == 200:
                return found
            assert found["status"] == "deleting"
            await asyncio.sleep(0.05)
        raise AssertionError("There is no receipt.")

    async def summary(self, name: str) -> dict[str, Any]:
        return ok(await self.owner.get(f"{self.path(name)}/summary"))

    async def count(self, event: str = "page") -> dict[str, Any]:
        path = f"/v1/projects/{self.id}/query-blueprints/event-count/run"
        [row] = ok(await self.owner.post(path, {"params": {"event": event, "days": 1}}))["rows"]
        found: dict[str, Any] = row
        return found

    @property
    def url(self) -> str:
        url = self.world.server.database_url
        assert url is not None
        return url


@pytest.fixture
async def product(world: World) -> Product:
    owner = await world.sign_in()
    return Product(world, owner, await owner.create_project())


async def test_a_person_goes_with_every_name_and_the_log_knows_a_hash(product: Product) -> None:
    """Rows, names, properties, samples, answers kept for repeats: nothing that the person was called is anywhere."""
    case_id = await product.leave_traces()
    assert len(holding(product.url, CANARY)[CANARY]) >= 5
    before = ok(await product.owner.get(f"/v1/cases/{case_id}"))
    receipt = await product.delete(ANON)
    assert (receipt["status"], receipt["names"], receipt["records"]) == ("deleted", 2, 6)
    assert holding(product.url, CANARY) == {}
    assert CANARY not in product.world.server.log()
    after = ok(await product.owner.get(f"/v1/cases/{case_id}"))
    for counter in ("event_count", "users_affected", "first_seen_at", "last_seen_at", "status", "revision"):
        assert after[counter] == before[counter]
    assert after["latest_event"]["user_id"] == BOB
    for name in (ANN, ANON):
        gone = await product.summary(name)
        assert ("person" in gone, gone["event_stats"]["total_events"], gone["recent_events"]) == (False, 0, [])
    assert (await product.summary(BOB))["event_stats"]["total_events"] == 2
    assert await product.count() == {"row_count": 1, "unique_users": 1}
    events = await product.world.sql(
        "select topic, payload::text from events where project_id = %s and kind = 'era' order by seq", product.id
    )
    assert [topic for topic, _ in events] == ["erasure.fenced.v1", "erasure.began.v1", "erasure.completed.v1"]
    assert json.loads(events[0][1])["person_hash"] == receipt["person_hash"]
    # Other tests write rows that no event explains to the same server: only this project's are looked at.
    assert [problem for problem in problems(product.url) if problem.project_id == product.id] == []


async def test_no_read_shows_anything_of_the_person(product: Product) -> None:
    """Every read of the project and of the case, and what the files of an archive hold, before and after."""
    case_id = await product.leave_traces()
    [[event_id]] = await product.world.sql(
        "select id from log_events where project_id = %s and user_id = %s", product.id, ANN
    )
    ids = {"project_id": product.id, "case_id": case_id, "event_id": event_id}
    before = await showing(product, ids)
    lists = {"list_case_events", "list_case_users", "list_logs", "list_users"}
    assert before >= {"get_case_event", "get_project_archive", "get_user_summary", "read_case", *lists}
    await product.delete()
    assert await showing(product, ids) == set()


async def showing(product: Product, ids: dict[str, str]) -> set[str]:
    """The operations whose answers hold something of the person, of the reads whose path these ids fill."""
    shown = set()
    for endpoint in all_endpoints():
        operation = endpoint.operation
        if operation.method != "GET" or not operation.path.startswith("/v1/"):
            continue
        path = operation.path.replace("{distinct_id}", quote(ANN, safe=""))
        for name, value in ids.items():
            path = path.replace(f"{{{name}}}", value)
        if "{" in path:
            continue
        answer = await product.owner.get(path)
        assert answer.status_code < 500 or answer.status_code == 503, (operation.operation_id, answer.text)
        said = answer.text
        if operation.operation_id == "get_project_archive":
            said = b"".join(archives.members(answer.content).values()).decode()
        elif operation.operation_id == "get_user_summary":
            said = said.replace(f'"distinct_id":"{ANN}"', "")  # the question
        if CANARY in said:
            shown.add(operation.operation_id)
    return shown


async def test_the_counters_do_not_change(product: Product) -> None:
    """Usage, names of events, traffic and recurrence are what they were, and what verifies counters agrees."""
    case_id = await product.leave_traces()
    await product.track("page", ANN, environment="staging")
    [[now]] = await product.world.sql("select service_seconds()")
    await product.world.wait(1)

    async def counted() -> list[Any]:
        usage = await product.world.sql("select errors, analytics from usage_days where project_id = %s", product.id)
        names = await product.world.sql(
            "select event, row_count from event_name_days where project_id = %s order by 1", product.id
        )
        repair = RepairedCase(case_id, "dep_1", "1", "production", now - 60)

        async def traffic(store: EventStore) -> Any:
            own = LocalAnalytics(store, product.id)
            probes = [TrafficProbe("page", place, now - 60, now + 60) for place in ("production", "staging")]
            return [await own.count_events(probe) for probe in probes]

        async def recurrences(store: EventStore) -> Any:
            async def ask(query: str, values: Mapping[str, Any]) -> Any:
                return await store.fetch(query, project_id=product.id, **values)

            return await count_recurrences(ask, repair, now - 60, now + 60)

        return [usage, names, await product.world.operate(traffic), await product.world.operate(recurrences)]

    before = await counted()
    assert ([traffic.count for traffic in before[2]], before[3]) == ([3, 4], 3)
    await product.delete()
    assert await counted() == before
    with psycopg.connect(product.url, autocommit=True) as sql:
        wrong = [found for table in COUNTERS for found in check_counters(sql, table) if found.project_id == product.id]
    assert wrong == []


async def test_a_case_was_in_an_environment_where_its_errors_are_erased(product: Product) -> None:
    """Of a case with errors in more environments than are kept, rows tell."""
    case_id = await product.err("boom", ANN, environment="staging")
    named = [f"e{number}" for number in range(ENVIRONMENTS_KEPT)]
    await product.world.sql("update case_stats set environments = %s where id = %s returning id", named, case_id)

    async def observed(store: EventStore) -> Any:
        return [await observed_in(store, product.id, [case_id], place) for place in ("staging", "production")]

    before = await product.world.operate(observed)
    assert before == [{case_id}, set()]
    await product.delete()
    assert await product.world.operate(observed) == before


async def test_who_comes_afterwards_is_somebody_new(product: Product) -> None:
    """Under the same names: without links, without properties, counted as one more, and may be deleted again."""
    case_id = await product.leave_traces()
    people = ok(await product.owner.get(f"/v1/cases/{case_id}"))["users_affected"]
    first = await product.delete()
    await product.world.wait(1)
    await product.track("page", ANON)
    await product.track("page", ANN)
    await product.err("boom", ANN)
    assert await product.count() == {"row_count": 3, "unique_users": 3}
    person = (await product.summary(ANN))["person"]
    assert (person["names"], person["properties"], person["identified"]) == ([ANN], {}, False)
    assert ok(await product.owner.get(f"/v1/cases/{case_id}"))["users_affected"] == people + 1
    assert await product.delete() == first, "the first request again"
    assert await product.count() == {"row_count": 3, "unique_users": 3}
    await product.world.wait(1)
    second = await product.delete(key="another")
    assert (second["names"], second["records"]) == (1, 2)
    assert second["deletion_id"] != first["deletion_id"]
    assert await product.count() == {"row_count": 2, "unique_users": 2}
    assert await product.delete() == first


async def test_another_request_waits_for_the_one_under_way(product: Product, world: World) -> None:
    """Also by another of the names: both mean one person. Nothing begins twice however many ask at once."""
    await product.leave_traces()
    rivals = [(ANN if number % 2 else ANON, f"rival-{number}") for number in range(8)]
    answers = await asyncio.gather(*(product.owner.call("DELETE", product.path(name), key=key) for name, key in rivals))
    assert {answer.status_code for answer in answers} <= {200, 202, 409}
    for answer in answers:
        if answer.status_code == 409:
            refused(answer, 409, "person_deletion_in_progress")
    first = [answer.status_code != 409 for answer in answers].index(True)
    receipt = await product.delete(*rivals[first])
    assert receipt["status"] == "deleted"
    fences = await world.sql(
        "select count(*) from events where project_id = %s and topic = 'erasure.fenced.v1' "
        "and payload ->> 'names' = '2'", product.id,
    )  # fmt: skip
    assert fences == [(1,)]


async def test_a_request_that_comes_again_is_the_same_one(product: Product) -> None:
    await product.leave_traces()
    first = await product.delete()
    assert await product.delete() == first
    other = await product.owner.call("DELETE", product.path(BOB), key="k")
    assert other.status_code in {200, 202}, "one key names one request for each person"
    missing = await product.owner.call("DELETE", product.path())
    refused(missing, 400, "idempotency_key_required")


async def test_nobody_is_deleted_at_once_and_remembered_all_the_same(product: Product) -> None:
    receipt = await product.delete("nobody-known")
    assert (receipt["names"], receipt["records"]) == (1, 0)
    refused(await product.owner.call("DELETE", product.path("x" * 201), key="k"), 400, "invalid_payload")
    for odd in ("a b|c?d#e", "ü✓", "%"):
        await product.track("page", odd)
        assert (await product.delete(odd))["records"] == 1


async def test_an_id_with_a_slash_goes_by_an_alias(product: Product) -> None:
    """No path holds it, so the page tells to give the person another name."""
    odd = "org/slashed-1d27"
    await product.track("page", odd)
    refused(await product.owner.call("DELETE", product.path(odd), key="k"), 404, "not_found")
    await product.track("$create_alias", odd, alias="plain")
    receipt = await product.delete("plain")
    assert (receipt["names"], receipt["records"]) == (2, 2)
    assert holding(product.url, odd) == {}


async def test_an_owner_alone_deletes_people_of_the_project(product: Product, world: World) -> None:
    await product.leave_traces()
    member, stranger = await world.sign_in(), await world.sign_in()
    await world.operate(lambda store: admin.set_member(store, product.id, member.user_id, Role.MEMBER))
    refused(await member.call("DELETE", product.path(), key="k"), 403, "owner_required")
    refused(await stranger.call("DELETE", product.path(), key="k"), 404, "project_not_found")
    refused(await product.dsn.call("DELETE", product.path(), key="k"), 403, "principal_not_allowed")
    other = Product(world, product.owner, await product.owner.create_project("other"))
    await other.track("page", ANN)
    await product.delete()
    assert (await other.summary(ANN))["event_stats"]["total_events"] == 1


async def test_the_ledger_has_hashes_and_no_name(product: Product, world: World) -> None:
    await product.leave_traces()
    receipt = await product.delete()
    ledger = Path(world.server.env["SERVICE_DATA_DIR"]) / "erasures.jsonl"
    [line] = [json.loads(one) for one in ledger.read_text().splitlines() if receipt["deletion_id"] in one]
    assert set(line) == {"project_id", "deletion_id", "until", "names"}
    assert line["names"][0] == receipt["person_hash"]
    assert (len(line["names"]), CANARY in ledger.read_text()) == (2, False)
