"""Alerts over HTTP, from their making to their end: who may, what is refused, races (R-ALR, G-092, G-162)."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
import pytest_asyncio

from service.alerts import AlertSchedule
from service.ids import new_id
from statemachines.alerts import ALERTS_LIMIT
from tests.service.http.projects.test_project import add_member, fence
from tests.support.api import Api, Person, World, at_once, ok, refused, without_request_id
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.questions import asking

pytestmark = pytest.mark.shares_server

BODY = {
    "blueprint_id": "event-count",
    "params": {"event": "paid", "days": 1},
    "threshold_column": "row_count",
    "threshold_op": "gte",
    "threshold_value": 2,
}
DOCUMENTED = {
    "id",
    "project_id",
    "name",
    "blueprint_id",
    "params",
    "threshold_column",
    "threshold_op",
    "threshold_value",
    "row_match",
    "status",
    "last_value",
    "last_evaluated_at",
    "created_at",
    "next_action",
}


class Watched:
    """A project with an owner and a product, and its alerts."""

    def __init__(self, world: World, owner: Person, project: dict[str, Any]) -> None:
        self.world = world
        self.owner = owner
        self.project_id: str = project["id"]
        self.path = f"/v1/projects/{self.project_id}/alerts"
        self.dsn = Api(world.client, project["dsn"])

    async def send(self, event: str = "paid", person: str = "ann") -> None:
        ok(await self.dsn.post("/v1/analytics/", {"event": event, "distinct_id": person}), 202)

    async def make(self, **changed: Any) -> dict[str, Any]:
        return ok(await self.owner.post(self.path, BODY | changed), 201)

    async def evaluate(self, made: dict[str, Any], **more: Any) -> dict[str, Any]:
        return ok(await self.owner.post(f"{self.path}/{made['id']}/evaluate", **more))

    async def show(self, made: dict[str, Any]) -> dict[str, Any]:
        return ok(await self.owner.get(f"{self.path}/{made['id']}"))

    async def events(self, made: dict[str, Any]) -> list[str]:
        """Topics of what was recorded of an alert."""
        rows = await self.world.sql(
            "select topic from events where project_id = %s and stream_id = %s order by revision",
            self.project_id,
            made["id"],
        )
        return [topic for (topic,) in rows]


@pytest_asyncio.fixture
async def watched(world: World) -> Watched:
    owner = await world.sign_in()
    return Watched(world, owner, await owner.create_project())


async def test_an_alert_from_its_making_to_its_end(watched: Watched) -> None:
    """R-ALR-03: created, evaluated_clear, triggered and back; an event only when the verdict changes."""
    made = await watched.make(name="Sales")
    assert set(made) == DOCUMENTED
    assert made["id"].startswith("alert_")
    assert (made["name"], made["status"], made["last_value"], made["last_evaluated_at"]) == (
        "Sales",
        "created",
        None,
        None,
    )
    assert made["params"] == {"days": 1, "event": "paid"}
    shown = await watched.show(made)
    assert {name: shown[name] for name in DOCUMENTED - {"next_action"}} == {
        name: made[name] for name in DOCUMENTED - {"next_action"}
    }
    assert (shown["evaluation_due_at"], shown["late_seconds"]) == (made["created_at"] + 300, 0)

    clear = await watched.evaluate(made)
    assert set(clear) == {
        "id",
        "status",
        "triggered",
        "observed_value",
        "threshold_column",
        "threshold_op",
        "threshold_value",
        "evaluated_at",
        "next_action",
    }
    assert (clear["status"], clear["triggered"], clear["observed_value"]) == ("evaluated_clear", False, 0)
    await watched.send()
    assert (await watched.evaluate(made, body={}))["observed_value"] == 1
    assert await watched.events(made) == ["alert.created.v1", "alert.found_clear.v1"]
    await watched.send()
    crossed = await watched.evaluate(made)
    assert (crossed["status"], crossed["triggered"], crossed["observed_value"]) == ("triggered", True, 2)
    await watched.evaluate(made)
    shown = await watched.show(made)
    assert (shown["status"], shown["last_value"]) == ("triggered", 2)
    assert shown["evaluation_due_at"] == shown["last_evaluated_at"] + 300
    other = await watched.make()
    listed = ok(await watched.owner.get(watched.path))
    assert {item["id"] for item in listed["alerts"]} == {other["id"], made["id"]}
    assert (listed["count"], listed["late_seconds"], listed["project_id"]) == (2, 0, watched.project_id)

    path = f"{watched.path}/{made['id']}"
    gone = ok(await watched.owner.call("DELETE", path, key="k"))
    assert (gone["id"], gone["status"]) == (made["id"], "deleted")
    assert ok(await watched.owner.call("DELETE", path, key="k")) == gone
    for method, tail in (("DELETE", ""), ("GET", ""), ("POST", "/evaluate")):
        refused(await watched.owner.call(method, path + tail), 404, "alert_not_found")
    assert [item["id"] for item in ok(await watched.owner.get(watched.path))["alerts"]] == [other["id"]]
    assert (await watched.events(made))[2:] == ["alert.triggered.v1", "alert.deleted.v1"]


@pytest.mark.parametrize(
    ("symbol", "word"), [(">", "gt"), (">=", "gte"), ("<", "lt"), ("<=", "lte"), ("==", "eq"), ("!=", "neq")]
)
async def test_symbols_are_kept_as_words(watched: Watched, symbol: str, word: str) -> None:
    made = await watched.make(threshold_op=symbol, threshold_value=0.5)
    assert (made["threshold_op"], made["threshold_value"]) == (word, 0.5)
    again = await watched.make(threshold_op=word, threshold_value=5.0, row_match="first")
    assert (again["threshold_op"], again["threshold_value"], again["row_match"]) == (word, 5, "first")


async def test_without_rows_nothing_is_crossed(watched: Watched) -> None:
    made = await watched.make(blueprint_id="top-events", params={}, threshold_op="lt", threshold_value=9)
    assert made["params"] == {"days": 30, "limit": 20}
    found = await watched.evaluate(made)
    assert (found["status"], found["observed_value"]) == ("evaluated_clear", None)
    assert (await watched.show(made))["last_value"] is None
    for _ in range(3):
        await watched.send("a")
    await watched.send("b")
    first = await watched.make(
        blueprint_id="top-events", params={}, threshold_op="eq", threshold_value=1, row_match="first"
    )
    assert (await watched.evaluate(first))["observed_value"] == 3
    assert (await watched.evaluate(made))["observed_value"] == 3
    whichever = await watched.make(blueprint_id="top-events", params={}, threshold_op="eq", threshold_value=1)
    assert (await watched.evaluate(whichever))["triggered"]


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"blueprint_id": "unknown"}, "blueprint_id"),
        ({"blueprint_id": "Event-Count"}, "blueprint_id"),
        ({"blueprint_id": ""}, "blueprint_id"),
        ({"params": {}}, "params.event"),
        ({"params": {"event": "a", "days": 91}}, "params.days"),
        ({"params": []}, "params"),
        ({"threshold_column": "unknown"}, "threshold_column"),
        ({"threshold_column": "event", "blueprint_id": "top-events", "params": {}}, "threshold_column"),
        ({"threshold_column": "last_seen_at", "blueprint_id": "top-events", "params": {}}, "threshold_column"),
        ({"threshold_op": "="}, "threshold_op"),
        ({"threshold_value": "2"}, "threshold_value"),
        ({"threshold_value": None}, "threshold_value"),
        ({"threshold_value": True}, "threshold_value"),
        ({"name": ""}, "name"),
        ({"name": "x" * 201}, "name"),
        ({"row_match": "last"}, "row_match"),
        ({"severity": "high"}, "severity"),
    ],
)
async def test_a_bad_alert_is_refused_by_name(watched: Watched, changed: dict[str, Any], named: str) -> None:
    """R-ALR-01, R-ALR-02: in creation and preview alike, and nothing is made."""
    for path in (watched.path, f"{watched.path}/preview"):
        details = refused(await watched.owner.post(path, BODY | changed), 400, "invalid_payload")["details"]
        faults = [*details["missing_fields"], *details["unknown_fields"]]
        assert named in faults + [fault["field"] for fault in details["invalid_fields"]]
        assert details["request_body_schema"]["properties"]
    assert ok(await watched.owner.get(watched.path))["alerts"] == []


async def test_a_missing_member_is_named(watched: Watched) -> None:
    for name in ("blueprint_id", "threshold_column", "threshold_op", "threshold_value"):
        body = {member: value for member, value in BODY.items() if member != name}
        assert refused(await watched.owner.post(watched.path, body), 400, "invalid_payload")["details"][
            "missing_fields"
        ] == [name]
    made = await watched.make()
    path = f"{watched.path}/{made['id']}/evaluate"
    error = refused(await watched.owner.post(path, {"force": True}), 400, "invalid_payload")
    assert error["details"]["unknown_fields"] == ["force"]
    for days in (0, 31, "7"):
        body = BODY | {"days": days}
        error = refused(await watched.owner.post(f"{watched.path}/preview", body), 400, "invalid_payload")
        assert [fault["field"] for fault in error["details"]["invalid_fields"]] == ["days"]


async def test_alerts_are_for_members(watched: Watched) -> None:
    """Another project's alert is an absent one, whatever form its id has."""
    made = await watched.make()
    member = await add_member(watched.world, watched.project_id, f"member-{watched.project_id}")
    ok(await member.post(f"{watched.path}/{made['id']}/evaluate"))
    stranger = await watched.world.sign_in()
    mine = (await stranger.create_project())["id"]
    ci = await watched.owner.create_credential(watched.project_id, "ci")
    ci_caller = watched.owner.having(ci["credential"])
    for method, tail, body in (
        ("GET", "", None),
        ("POST", "", BODY),
        ("POST", "/preview", BODY),
        ("GET", f"/{made['id']}", None),
        ("POST", f"/{made['id']}/evaluate", None),
        ("DELETE", f"/{made['id']}", None),
    ):
        path = watched.path + tail
        foreign = await stranger.call(method, path, body)
        refused(foreign, 404, "project_not_found")
        absent = await stranger.call(method, f"/v1/projects/{new_id('proj')}/alerts{tail}", body)
        assert without_request_id(foreign) == without_request_id(absent)
        for caller in (watched.dsn, ci_caller):
            refused(await caller.call(method, path, body), 403, "principal_not_allowed")
        refused(await watched.world.call(method, path, body), 401, "unauthenticated")
        if made["id"] in tail:
            for name in (made["id"], "alert_none", "x" * 300, "%25", "%F0%9F%98%80"):
                there = f"/v1/projects/{mine}/alerts{tail.replace(made['id'], name)}"
                assert (await stranger.call(method, there, body)).status_code == 404
            refused(await stranger.call(method, f"/v1/projects/{mine}/alerts{tail}", body), 404, "alert_not_found")
    assert (await watched.show(made))["status"] == "evaluated_clear"


async def test_a_repeat_with_its_key_is_the_old_verdict(watched: Watched) -> None:
    made = ok(await watched.owner.post(watched.path, BODY, key="make"), 201)
    assert ok(await watched.owner.post(watched.path, BODY, key="make"), 201) == made
    refused(await watched.owner.post(watched.path, BODY | {"name": "x"}, key="make"), 422, "idempotency_key_reused")
    assert ok(await watched.owner.get(watched.path))["count"] == 1
    clear = await watched.evaluate(made, key="look")
    for _ in range(2):
        await watched.send()
    assert await watched.evaluate(made, key="look") == clear
    assert (await watched.show(made))["status"] == "evaluated_clear"
    crossed = await watched.evaluate(made, key="again")
    assert crossed["triggered"]
    ok(await watched.owner.call("DELETE", f"{watched.path}/{made['id']}"))
    assert await watched.evaluate(made, key="look") == clear
    preview = ok(await watched.owner.post(f"{watched.path}/preview", BODY, key="back"))
    await watched.send()
    assert ok(await watched.owner.post(f"{watched.path}/preview", BODY, key="back")) == preview


async def test_a_fenced_project_is_read_and_no_more(watched: Watched) -> None:
    """G-131: a preview changes nothing, so it stays open."""
    made = await watched.make()
    await fence(watched.world, watched.project_id)
    for method, tail, body in (
        ("POST", "", BODY),
        ("POST", f"/{made['id']}/evaluate", None),
        ("DELETE", f"/{made['id']}", None),
    ):
        refused(await watched.owner.call(method, watched.path + tail, body), 409, "project_deletion_in_progress")
    assert (await watched.show(made))["status"] == "created"
    assert ok(await watched.owner.get(watched.path))["count"] == 1
    ok(await watched.owner.post(f"{watched.path}/preview", BODY))


async def test_a_project_has_fifty_also_in_a_race(watched: Watched) -> None:
    """And a deleted one leaves its place to another."""

    async def make(_: int) -> int:
        """Send one body, whatever comes of it."""
        headers = {"authorization": f"Bearer {watched.owner.secret}"}
        return (await watched.owner.client.post(watched.path, json=BODY, headers=headers)).status_code

    async def make_all(number: int) -> list[int]:
        """Send as many at once, and again those for which the service was too busy."""
        done: list[int] = []
        while number:
            found = await at_once(number, make)
            number = found.count(503)
            done += [status for status in found if status != 503]
        return sorted(done)

    assert await make_all(ALERTS_LIMIT + 9) == [201] * ALERTS_LIMIT + [400] * 9
    refused(await watched.owner.post(watched.path, BODY), 400, "invalid_payload")
    listed = ok(await watched.owner.get(watched.path))["alerts"]
    assert len(listed) == ALERTS_LIMIT
    ok(await watched.owner.call("DELETE", f"{watched.path}/{listed[7]['id']}"))
    assert await make_all(4) == [201, 400, 400, 400]
    other = (await watched.owner.create_project())["id"]
    ok(await watched.owner.post(f"/v1/projects/{other}/alerts", BODY), 201)


async def test_rivals_record_one_change(watched: Watched) -> None:
    """Evaluated by many hands at once, the same change is one event."""
    made = await watched.make()
    for topic in ("alert.found_clear.v1", "alert.triggered.v1"):
        answers = await at_once(6, lambda _: watched.owner.post(f"{watched.path}/{made['id']}/evaluate"))
        statuses = {ok(answer)["status"] for answer in answers if answer.status_code != 429}
        assert len(statuses) == 1
        assert (await watched.events(made))[-1] == topic
        for _ in range(2):
            await watched.send()
    assert await watched.events(made) == ["alert.created.v1", "alert.found_clear.v1", "alert.triggered.v1"]


async def test_the_schedule_and_hands_record_one_change(watched: Watched) -> None:
    """Two workers beside the service, whose own may join in, and two hands: one event for each change."""
    made = await watched.make()
    path = f"{watched.path}/{made['id']}"
    async with asking(watched.world.server.database_url) as questions:

        async def work() -> None:
            await AlertSchedule(questions.store, questions.queries).run()

        for topics in (["alert.found_clear.v1"], ["alert.found_clear.v1", "alert.triggered.v1"]):
            await watched.world.wait(301)
            hands = [watched.owner.post(f"{path}/evaluate") for _ in range(2)]
            answers = await asyncio.gather(work(), *hands, work())
            assert {ok(answer)["triggered"] for answer in answers[1:-1]} == {"alert.triggered.v1" in topics}
            assert await watched.events(made) == ["alert.created.v1", *topics]
            for _ in range(2):
                await watched.send()


async def test_the_service_looks_by_itself(watched: Watched) -> None:
    """Its worker wakes with the clock; nobody has asked."""
    made = await watched.make()
    watched.world.server.advance(301)
    give_up = time.monotonic() + 30
    while (shown := await watched.show(made))["status"] == "created":
        assert time.monotonic() < give_up
        await asyncio.sleep(0.1)
    assert shown["last_evaluated_at"] >= made["created_at"] + 300
    [[actor]] = await watched.world.sql(
        "select actor_kind || ':' || actor_id from events where stream_id = %s and revision = 2", made["id"]
    )
    assert actor == "system:alerts"


async def test_after_its_end_nobody_records_a_look(watched: Watched) -> None:
    """Whoever evaluates while it is deleted either comes before, or is told that there is none."""
    for _ in range(4):
        made = await watched.make()
        path = f"{watched.path}/{made['id']}"
        answers = await asyncio.gather(
            watched.owner.post(f"{path}/evaluate"),
            watched.owner.call("DELETE", path),
            watched.owner.post(f"{path}/evaluate"),
            watched.owner.call("DELETE", path),
        )
        assert sorted(answer.status_code for answer in answers[1::2]) == [200, 404]
        for answer in answers[::2]:
            assert answer.status_code in {200, 404}
        assert (await watched.events(made))[-1] == "alert.deleted.v1"
        assert (await watched.events(made)).count("alert.deleted.v1") == 1
        [[due_at]] = await watched.world.sql("select due_at from alert_looks where id = %s", made["id"])
        assert due_at is None


async def test_a_preview_tells_when_it_would_have_triggered(watched: Watched) -> None:
    """Looks of the past see what had come in by then; nothing is recorded."""
    for _ in range(2):
        await watched.send()
    await watched.world.sql(
        "update analytics_events set received_at = received_at - %s where project_id = %s",
        86400 * 2,
        watched.project_id,
    )
    body = BODY | {"days": 4}
    found = ok(await watched.owner.post(f"{watched.path}/preview", body))
    assert (found["every_seconds"], found["count"], found["looks_left_out"]) == (3600, 96, 0)
    assert [look["triggered"] for look in found["looks"]] == [25 <= hours <= 48 for hours in range(96)]
    assert found["triggered_count"] == sum(look["triggered"] for look in found["looks"])
    assert found["params"] == BODY["params"]
    assert all(look["complete"] for look in found["looks"])
    assert found["looks"][0]["at"] - found["looks"][-1]["at"] == 95 * 3600
    default = ok(await watched.owner.post(f"{watched.path}/preview", BODY))
    assert (default["days"], default["count"]) == (7, 96)
    assert ok(await watched.owner.get(watched.path))["count"] == 0
