"""No delivery begins after an end was answered, and what is left of it goes (R-WEB-09, G-159)."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import pytest

from service.webhooks.sending import tidy
from tests.service.http.cases.test_case import log
from tests.service.webhooks.test_notifications import until_looked_again
from tests.service.webhooks.test_outbox import listener as listener  # noqa: PLC0414 (fixtures are found by name)
from tests.service.webhooks.test_outbox import register, settled, until_shown
from tests.service.webhooks.test_outbox import shop as shop  # noqa: PLC0414
from tests.support.api import World, at_once, ok
from tests.support.api import world as world  # noqa: PLC0414
from tests.support.listening import Listener, listening, never

GRACE = 0.5
"""Seconds that an attempt may be on the wire which had begun before the answer."""
DAY = 86_400
TABLES = ("webhook_targets", "webhook_standings", "webhook_subscriptions", "webhook_deliveries")


async def left(world: World, project_id: str) -> dict[str, int]:
    """Rows beside the log that a project's webhooks have."""
    counts = {
        table: await world.sql(f"select count(*) from {table} where project_id = %s", project_id) for table in TABLES
    }
    return {table: int(rows[0][0]) for table, rows in counts.items()}


@pytest.mark.parametrize("end", ["delete", "stop", "fence"])
async def test_an_end_races_attempts_and_none_begins_after_it(world: World, shop, listener: Listener, end: str):
    owner, project_id, dsn = shop
    path = f"/v1/projects/{project_id}/webhooks"
    made = [await register(owner, project_id, listener.url) for _ in range(6)]
    flow = asyncio.create_task(
        at_once(40, lambda number: dsn.post("/v1/logs/", {"level": "error", "message": f"boom {'x' * number}"}))
    )
    await listener.until_arrived(3)
    ended: dict[str, float] = {}
    if end == "fence":
        answer = await owner.call("DELETE", f"/v1/projects/{project_id}", key="end")
        assert answer.status_code in {200, 202}, answer.text
        ended = dict.fromkeys([one["id"] for one in made], time.monotonic())
    else:
        for one in made:
            await asyncio.sleep(random.uniform(0, 0.05))
            answer = (
                await owner.call("DELETE", f"{path}/{one['id']}")
                if end == "delete"
                else await owner.call("PATCH", f"{path}/{one['id']}", {"enabled": False})
            )
            ok(answer)
            ended[one["id"]] = time.monotonic()
    await flow
    queued = "select id, webhook_id from webhook_deliveries where project_id = %s"
    of = dict(await world.sql(queued, project_id))
    await until_looked_again(world, owner, times=3)
    of |= dict(await world.sql(queued, project_id))
    late = [one for one in listener.arrived if one.id in of and one.at > ended[of[one.id]] + GRACE]
    assert late == []
    before = len(listener.arrived)
    assert before >= 3
    await world.wait(3 * DAY)
    await until_looked_again(world, owner, times=3)
    assert len(listener.arrived) == before


async def test_what_a_deleted_webhook_leaves_goes(world: World, shop, listener: Listener):
    owner, project_id, dsn = shop
    made = await register(owner, project_id, listener.url)
    kept = await register(owner, project_id, "https://127.0.0.1:9/x", "deploy.recorded")
    listener.status = 500
    await log(dsn, "boom")
    await settled(world, project_id, 1)
    ok(await owner.call("DELETE", f"/v1/projects/{project_id}/webhooks/{made['id']}"))
    give_up = time.monotonic() + 20
    while (rows := await left(world, project_id)) != {
        "webhook_targets": 1, "webhook_standings": 0, "webhook_subscriptions": 1, "webhook_deliveries": 0,
    }:  # fmt: skip
        assert time.monotonic() < give_up, rows
        await tidy(world.server.database_url)
        await asyncio.sleep(0.1)
    assert kept["id"]


async def test_a_stop_ends_what_was_queued(world: World, shop, listener: Listener):
    owner, project_id, dsn = shop
    made = await register(owner, project_id, listener.url)
    listener.status = 500
    await log(dsn, "boom")
    await settled(world, project_id, 1)
    one = f"/v1/projects/{project_id}/webhooks/{made['id']}"
    ok(await owner.call("PATCH", one, {"enabled": False}))
    ok(await owner.call("PATCH", one, {"enabled": True}))
    give_up = time.monotonic() + 20
    states = "select state, due_ms from webhook_deliveries where project_id = %s"
    while await world.sql(states, project_id) != [("stopped", None)]:
        assert time.monotonic() < give_up
        await tidy(world.server.database_url)
        await asyncio.sleep(0.05)
    await until_shown(owner, project_id, made["id"], enabled=True)


async def test_deliveries_are_kept_for_thirty_days(world: World, shop, listener: Listener):
    owner, project_id, dsn = shop
    await register(owner, project_id, listener.url)
    await log(dsn, "boom")
    await listener.until_arrived(1)
    await world.wait(29 * DAY)
    await tidy(world.server.database_url)
    assert (await left(world, project_id))["webhook_deliveries"] == 1
    await world.wait(2 * DAY)
    await tidy(world.server.database_url)
    assert (await left(world, project_id))["webhook_deliveries"] == 0


async def test_a_deleted_project_leaves_nothing_of_its_webhooks(world: World, shop, listener: Listener):
    owner, project_id, dsn = shop
    await register(owner, project_id, listener.url)
    await log(dsn, "boom")
    await listener.until_arrived(1)
    ok(await owner.call("DELETE", f"/v1/projects/{project_id}", key="end"), 202)
    await until_purged(world, owner, project_id, 60)


async def until_purged(world: World, owner: Any, project_id: str, seconds: float) -> None:
    """Wait until nothing of a project's webhooks is left, while the deletion is asked for again."""
    give_up = time.monotonic() + seconds
    while any((await left(world, project_id)).values()):
        assert time.monotonic() < give_up
        await owner.call("DELETE", f"/v1/projects/{project_id}", key="end")
        await asyncio.sleep(0.2)


@pytest.mark.parametrize("status", [204, 500])
async def test_a_fence_is_told_once_before_the_purge(world: World, shop, listener: Listener, status: int):
    owner, project_id, dsn = shop
    made = await register(owner, project_id, listener.url, "project.fenced", "case.created")
    await register(owner, project_id, listener.url, "*")
    listener.status = status
    await log(dsn, "boom")
    await listener.until_arrived(2)
    await owner.call("DELETE", f"/v1/projects/{project_id}", key="end")
    await until_purged(world, owner, project_id, 60)
    told = [one for one in listener.arrived if one.event == "project.fenced"]
    assert [one.document["data"] for one in told] == [{"project_id": project_id, "status": "fenced", "revision": 2}]
    told[0].verify(made["secret"])
    assert len(listener.arrived) == 3


async def test_a_purge_waits_for_a_silent_receiver_for_half_a_minute(world: World, shop, listener: Listener):
    owner, project_id, _ = shop
    await register(owner, project_id, listener.url, "project.fenced")
    listener.answering = never
    await owner.call("DELETE", f"/v1/projects/{project_id}", key="end")
    await listener.until_arrived(1)
    assert (await left(world, project_id))["webhook_targets"] == 1
    await world.wait(31)
    await until_purged(world, owner, project_id, 60)


async def test_another_account_is_not_delayed_by_a_receiver_that_never_answers(world: World, shop, listener: Listener):
    owner, project_id, dsn = shop

    async def hang(_: Any, __: Any) -> None:
        await asyncio.sleep(30)

    async with listening() as silent:
        silent.answering = hang
        for number in range(20):
            await register(owner, project_id, silent.url)
            await log(dsn, f"flood {'y' * number}")
        await silent.until_arrived(1)
        victim = await world.sign_in()
        made = await victim.create_project()
        await register(victim, made["id"], listener.url)
        began = time.monotonic()
        await log(world.having(made["dsn"]), "boom")
        await listener.until_arrived(1)
        assert listener.arrived[0].at - began < 5
        assert silent.connections <= 8
