"""Deliveries through real processes: from a recorded event to a receiver that verifies it (R-WEB, G-091, G-160)."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec
import pytest

from schemas.webhooks import MAX_DELIVERY_BYTES
from service.webhooks.queueing import ToldEvent, data_of
from tests.service.http.cases.test_acting import act
from tests.service.http.cases.test_case import listed, log
from tests.support.api import World, ok
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.listening import Listener, listening

DAY = 86_400


@pytest.fixture
async def shop(world: World):
    """A project of a fresh owner: (owner, project id, its DSN as a caller)."""
    owner = await world.sign_in()
    made = await owner.create_project()
    return owner, made["id"], world.having(made["dsn"])


@pytest.fixture
async def listener():
    async with listening() as one:
        yield one


async def register(owner: Any, project_id: str, url: str, *events: str) -> dict[str, Any]:
    body = {"url": url, "events": list(events) or ["*"]}
    return ok(await owner.post(f"/v1/projects/{project_id}/webhooks", body), 201)


async def webhook(owner: Any, project_id: str, webhook_id: str) -> dict[str, Any]:
    return ok(await owner.get(f"/v1/projects/{project_id}/webhooks/{webhook_id}"))


async def until_shown(owner: Any, project_id: str, webhook_id: str, **wanted: Any) -> dict[str, Any]:
    """Wait until a webhook shows these members."""
    give_up = time.monotonic() + 20
    while True:
        shown = await webhook(owner, project_id, webhook_id)
        if {name: shown[name] for name in wanted} == wanted:
            return shown
        assert time.monotonic() < give_up, shown
        await asyncio.sleep(0.05)


async def test_a_case_and_a_deploy_are_delivered_verified_and_in_order(world: World, shop, listener: Listener):
    owner, project_id, dsn = shop
    made = await register(owner, project_id, listener.url)
    case_id = (await log(dsn, "boom"))["case_id"]
    await act(owner, case_id, "resolve", 1)
    await log(dsn, "boom")
    await act(owner, case_id, "ignore", 3)
    deploy = ok(await dsn.post("/v1/deploys", {"version": "1", "environment": "production"}), 202)
    await listener.until_arrived(5)
    of_case = [one for one in listener.arrived if one.event.startswith("case.")]
    assert [one.event for one in of_case] == ["case.created", "case.resolved", "case.regressed", "case.ignored"]
    data = [one.document["data"] for one in of_case]
    assert [(one["revision"], one["status"]) for one in data] == [
        (1, "open"), (2, "resolved"), (3, "open"), (4, "ignored"),
    ]  # fmt: skip
    [shown] = (await listed(owner, project_id, status="all"))["cases"]
    after = ("status", "revision", "event_count", "last_seen_at", "first_seen_at", "last_occurred_at")
    for one in data:
        assert set(one) == set(shown)
        assert {name: one[name] for name in shown if name not in after} == {
            name: shown[name] for name in shown if name not in after
        }
        assert shown["first_occurred_at"] <= one["last_occurred_at"] <= shown["last_occurred_at"]  # a second error
    [of_deploy] = [one for one in listener.arrived if one.event == "deploy.recorded"]
    [record] = ok(await owner.get(f"/v1/projects/{project_id}/deploys"))["deploys"]
    assert of_deploy.document["data"] == record
    assert record["id"] == deploy["id"]
    for one in listener.arrived:
        one.verify(made["secret"])
        assert one.headers["x-service-delivery"] == one.id == one.document["id"]
        assert one.document["event"] == one.event
        assert one.document["project_id"] == project_id
        assert set(one.document) == {"id", "event", "project_id", "created_at", "data"}
    assert len({one.id for one in listener.arrived}) == 5
    await until_shown(owner, project_id, made["id"], status="delivering", last_status=204, last_error=None)


async def test_only_what_is_subscribed_to_is_delivered(shop, listener: Listener):
    owner, project_id, dsn = shop
    async with listening() as other:
        await register(owner, project_id, listener.url, "case.resolved", "case.assigned")
        star = await register(owner, project_id, other.url, "*")
        case_id = (await log(dsn, "boom"))["case_id"]
        await act(owner, case_id, "assign", 1, user_id=owner.user_id)
        await act(owner, case_id, "resolve", 1)
        await other.until_arrived(2)
        await listener.until_arrived(2)
        assert other.events() == ["case.created", "case.resolved"]
        assert listener.events() == ["case.assigned", "case.resolved"]
        assigned = listener.arrived[0].document["data"]
        assert assigned == {"case_id": case_id, "status": "open", "revision": 1, "assignee": owner.user_id}
        assert star["id"]


async def test_an_act_on_many_cases_is_told_once(shop, listener: Listener):
    owner, project_id, dsn = shop
    async with listening() as other:
        await register(owner, project_id, listener.url, "case_batch.ended")
        await register(owner, project_id, other.url, "*")
        ids = [(await log(dsn, text))["case_id"] for text in ("boom", "bang")]
        cases = [{"case_id": case_id, "case_revision": 1} for case_id in ids]
        body = {"action": "resolve", "cases": cases}
        batch = ok(await owner.post(f"/v1/projects/{project_id}/case-batches", body, key="k"))
        ok(await owner.post(f"/v1/projects/{project_id}/case-batches", body, key="k"))
        await log(dsn, "later")
        await other.until_arrived(4)
        await listener.until_arrived(1)
        assert sorted(other.events()) == ["case.created", "case.created", "case.created", "case_batch.ended"]
        [told] = listener.arrived
        assert told.document["data"] == {
            "batch_id": batch["batch_id"], "action": "resolve", "assignee": None, "cases": 2, "moved": 2, "revision": 1,
        }  # fmt: skip


async def test_what_came_before_a_registration_is_not_delivered(shop, listener: Listener):
    owner, project_id, dsn = shop
    await log(dsn, "earlier")
    await register(owner, project_id, listener.url)
    later = await log(dsn, "later")
    await listener.until_arrived(1)
    assert listener.arrived[0].document["data"]["case_id"] == later["case_id"]


async def test_a_failed_delivery_is_retried_on_schedule_and_exhausted(world: World, shop, listener: Listener):
    owner, project_id, dsn = shop
    made = await register(owner, project_id, listener.url)
    listener.status = 500
    await log(dsn, "boom")
    await listener.until_arrived(1)
    await until_shown(owner, project_id, made["id"], status="unhealthy", last_status=500)
    first = listener.arrived[0].at
    await listener.until_arrived(2)
    assert 4.9 < listener.arrived[1].at - first < 8
    for number, step in enumerate((300, 1800, 7200, 18000, 36000, 36000), start=3):
        [[due]] = await world.sql(
            "select (due_ms / 1000.0 - extract(epoch from service_now()))::float from webhook_deliveries "
            "where project_id = %s and attempts = %s",
            *(project_id, number - 1),
        ) or await settled(world, project_id, number - 1)
        assert step * 0.98 < due <= step * 1.1
        await world.wait(int(due) - 3)
        assert len(listener.arrived) == number - 1
        await world.wait(4)
        await listener.until_arrived(number)
    assert len(listener.arrived) == 8
    give_up = time.monotonic() + 10
    while await world.sql("select from webhook_deliveries where project_id = %s and due_ms is not null", project_id):
        assert time.monotonic() < give_up
        await asyncio.sleep(0.05)
    assert await world.sql("select state, attempts from webhook_deliveries where project_id = %s", project_id) == [
        ("exhausted", 8)
    ]
    assert len({one.id for one in listener.arrived}) == len({one.body for one in listener.arrived}) == 1
    for one in listener.arrived:
        assert abs(int(one.headers["webhook-timestamp"]) - time.time()) < 120  # real time, whatever the test clock says
        one.verify(made["secret"])


@pytest.mark.parametrize(("status", "seconds"), [(429, 3600), (503, 0)])
async def test_the_schedule_is_fixed_whatever_the_receiver_asks_for(
    world: World, shop, listener: Listener, status: int, seconds: int
):
    async def refuse(_: Any, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 {status} No\r\nretry-after: {seconds}\r\ncontent-length: 0\r\n\r\n".encode())
        await writer.drain()

    owner, project_id, dsn = shop
    await register(owner, project_id, listener.url)
    listener.answering = refuse
    await log(dsn, "boom")
    [[due]] = await settled(world, project_id, 1)
    assert 2 < due <= 5.5
    await listener.until_arrived(2)
    assert 4.9 < listener.arrived[1].at - listener.arrived[0].at < 10


async def settled(world: World, project_id: str, attempts: int) -> list[tuple[Any, ...]]:
    """Wait until so many attempts of the one delivery are noted; returns in how many seconds the next is due."""
    give_up = time.monotonic() + 10
    query = (
        "select (due_ms / 1000.0 - extract(epoch from service_now()))::float from webhook_deliveries "
        "where project_id = %s and attempts = %s"
    )
    while not (rows := await world.sql(query, project_id, attempts)):
        assert time.monotonic() < give_up
        await asyncio.sleep(0.02)
    return rows


async def test_410_stops_the_webhook_until_a_test_succeeds(world: World, shop, listener: Listener):
    owner, project_id, dsn = shop
    made = await register(owner, project_id, listener.url)
    listener.status = 410
    await log(dsn, "one")
    shown = await until_shown(owner, project_id, made["id"], enabled=False, status="unhealthy")
    assert shown["stop_reason"] == "gone"
    await log(dsn, "two")
    listener.status = 200
    ok(await owner.post(f"/v1/projects/{project_id}/webhooks/{made['id']}/test"))
    await until_shown(owner, project_id, made["id"], enabled=True)
    third = await log(dsn, "three")
    await listener.until(lambda: listener.events().count("case.created") >= 2)
    assert listener.events() == ["case.created", "webhook.test", "case.created"]
    assert listener.arrived[-1].document["data"]["case_id"] == third["case_id"]


async def test_five_days_of_failures_stop_the_webhook(world: World, shop, listener: Listener):
    owner, project_id, dsn = shop
    made = await register(owner, project_id, listener.url)
    listener.status = 503
    await log(dsn, "one")
    await until_shown(owner, project_id, made["id"], status="unhealthy")
    await settled(world, project_id, 1)
    await world.wait(5 * DAY)
    shown = await until_shown(owner, project_id, made["id"], enabled=False)
    assert shown["stop_reason"] == "failing"


async def test_nothing_is_delivered_while_a_member_has_switched_it_off(shop, listener: Listener):
    owner, project_id, dsn = shop
    made = await register(owner, project_id, listener.url)
    one = f"/v1/projects/{project_id}/webhooks/{made['id']}"
    ok(await owner.call("PATCH", one, {"enabled": False}))
    await log(dsn, "off")
    ok(await owner.call("PATCH", one, {"enabled": True}))
    later = await log(dsn, "on")
    await listener.until_arrived(1)
    assert listener.arrived[0].document["data"]["case_id"] == later["case_id"]


async def test_the_latest_address_and_subscription_count(shop, listener: Listener):
    owner, project_id, dsn = shop
    async with listening() as other:
        made = await register(owner, project_id, listener.url, "deploy.recorded")
        one = f"/v1/projects/{project_id}/webhooks/{made['id']}"
        ok(await owner.call("PATCH", one, {"url": other.url, "events": ["case.created"]}))
        await log(dsn, "boom")
        await other.until_arrived(1)
        other.arrived[0].verify(made["secret"])
        assert listener.connections == 0


async def test_a_delivery_is_small(shop, listener: Listener):
    owner, project_id, dsn = shop
    await register(owner, project_id, listener.url)
    body = {"message": "é" * 8192, "level": "error", "environment": "é" * 100, "release": "é" * 200}
    ok(await dsn.post("/v1/logs/", body), 202)
    await listener.until_arrived(1)
    assert len(listener.arrived[0].body) < MAX_DELIVERY_BYTES
    assert msgspec.json.decode(listener.arrived[0].body)["data"]["title"]


async def test_an_alert_is_told_when_its_verdict_changes(world: World, shop, listener: Listener):
    """A first look without a crossing is no change: `alert.cleared` comes after `alert.triggered` alone."""
    owner, project_id, dsn = shop
    await register(owner, project_id, listener.url, "alert.triggered", "alert.cleared")
    wish = {
        "blueprint_id": "event-count",
        "params": {"event": "paid", "days": 1},
        "threshold_column": "row_count",
        "threshold_op": "gte",
        "threshold_value": 1,
    }
    path = f"/v1/projects/{project_id}/alerts"
    made = ok(await owner.post(path, wish), 201)
    assert ok(await owner.post(f"{path}/{made['id']}/evaluate", {}))["status"] == "evaluated_clear"
    ok(await dsn.post("/v1/analytics/", {"event": "paid", "distinct_id": "u1"}), 202)
    ok(await owner.post(f"{path}/{made['id']}/evaluate", {}))
    await listener.until_arrived(1)
    await world.wait(2 * DAY)
    ok(await owner.post(f"{path}/{made['id']}/evaluate", {}))
    await listener.until_arrived(2)
    assert [(one.event, one.document["data"]) for one in listener.arrived] == [
        ("alert.triggered", {"alert_id": made["id"], "status": "triggered", "revision": 3}),
        ("alert.cleared", {"alert_id": made["id"], "status": "evaluated_clear", "revision": 4}),
    ]
    followed = ok(await owner.get(f"/v1/projects/{project_id}/project-events?after=0&names=alert.cleared"))["events"]
    assert [one["data"]["revision"] for one in followed] == [4]
    told = ToldEvent(project_id, "evt_1", "alert.cleared", made["id"], 2, 0)
    assert await world.operate(lambda store: data_of(store, told)) is None, "as earlier releases recorded a first look"
