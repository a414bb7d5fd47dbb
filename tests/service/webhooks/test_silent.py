"""Receivers that never answer delay no other webhook's first attempt, of their account and of others (P25, G-159)."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.service.http.cases.test_case import log
from tests.service.webhooks.test_outbox import listener as listener  # noqa: PLC0414 (fixtures are found by name)
from tests.service.webhooks.test_outbox import register, until_shown
from tests.service.webhooks.test_outbox import shop as shop  # noqa: PLC0414
from tests.support.api import World
from tests.support.api import world as world  # noqa: PLC0414
from tests.support.listening import Answering, Arrived, Listener, listening, never, respond

SOON = 8.0
"""Seconds for a first attempt, five and some for a busy machine; an attempt at a silent receiver takes ten."""
SLOW = 9.0
MOST = 20
"""Webhooks that a project may have."""


async def fail_late(_: Arrived, writer: asyncio.StreamWriter) -> None:
    """Answer with 500 just before the time is over."""
    await asyncio.sleep(SLOW)
    await respond(writer, 500)


async def drip(_: Arrived, writer: asyncio.StreamWriter) -> None:
    """Send a head that never ends."""
    writer.write(b"HTTP/1.1 200 OK\r\nx: ")
    while not writer.is_closing():
        writer.write(b"y")
        await asyncio.sleep(0.2)


@pytest.fixture
async def silent() -> AsyncIterator[Listener]:
    """A receiver that takes everything and answers nothing."""
    async with listening() as one:
        one.answering = never
        yield one


async def add(world: World, owner: Any) -> tuple[str, Any]:
    """Another project of the owner, and its DSN as a caller."""
    made = await owner.create_project()
    return made["id"], world.having(made["dsn"])


@pytest.mark.parametrize("behaviour", [never, fail_late, drip], ids=["silent", "late 500", "dripping"])
@pytest.mark.parametrize("number", [1, MOST])
async def test_a_new_webhook_is_tried_beside_slow_ones(
    world: World, shop, silent: Listener, listener: Listener, behaviour: Answering, number: int
) -> None:
    """However many are slow, and however many deliveries are due at these."""
    owner, project_id, dsn = shop
    silent.answering = behaviour
    for _ in range(number):
        await register(owner, project_id, silent.url)
    for message in ("one", "two", "three"):
        await log(dsn, message)
    await silent.until_arrived(min(number, 6))
    other, other_dsn = await add(world, owner)
    await register(owner, other, listener.url)
    await log(other_dsn, "boom")
    await listener.until_arrived(1, SOON)


async def test_each_of_twenty_webhooks_is_tried_soon(shop, silent: Listener, listener: Listener) -> None:
    """All are new, all but one are silent, and one event is due at each in the same moment."""
    owner, project_id, dsn = shop
    for number in range(MOST):
        await register(owner, project_id, listener.url if number == MOST // 2 else silent.url)
    await log(dsn, "boom")
    await asyncio.gather(listener.until_arrived(1, SOON), silent.until(lambda: silent.connections >= MOST - 1, SOON))


async def test_a_webhook_that_failed_is_tried_beside_silent_ones(
    world: World, shop, silent: Listener, listener: Listener
) -> None:
    """Also one whose name is last and whose last attempt failed."""
    owner, project_id, dsn = shop
    other, other_dsn = await add(world, owner)
    made = await register(owner, other, listener.url)
    listener.status = 500
    await log(other_dsn, "boom")
    await until_shown(owner, other, made["id"], status="unhealthy")
    for _ in range(8):
        await register(owner, project_id, silent.url)
    await log(dsn, "one")
    await silent.until_arrived(6)
    listener.status = 204
    seen = len(listener.arrived)
    case_id = (await log(other_dsn, "another"))["case_id"]
    await listener.until(lambda: _tells(listener.arrived[seen:], case_id), SOON)


async def test_a_silent_account_delays_no_other(world: World, shop, silent: Listener, listener: Listener) -> None:
    """Many accounts with silent receivers hold as many places as such may have."""
    for _ in range(10):
        owner = await world.sign_in()
        project_id, dsn = await add(world, owner)
        for _ in range(6):
            await register(owner, project_id, silent.url)
        await log(dsn, "boom")
    await silent.until_arrived(24)
    owner, project_id, dsn = shop
    await register(owner, project_id, silent.url)
    await register(owner, project_id, listener.url)
    await log(dsn, "boom")
    await listener.until_arrived(1, SOON)


async def test_a_worker_that_starts_anew_goes_on_with_the_turns(
    world: World, shop, silent: Listener, listener: Listener
) -> None:
    """What was tried last is known to the next worker."""
    owner, project_id, dsn = shop
    for _ in range(8):
        await register(owner, project_id, silent.url)
    for message in ("one", "two"):
        await log(dsn, message)
    await silent.until_arrived(6)
    killed = world.server.processes("service.process.worker")
    for worker in killed:
        worker.send_signal(signal.SIGKILL)
    before = silent.connections
    give_up = time.monotonic() + 60
    while silent.connections == before:  # what the next one has taken
        assert time.monotonic() < give_up
        await asyncio.sleep(0.1)
        await world.wait(1)
    other, other_dsn = await add(world, owner)
    await register(owner, other, listener.url)
    await log(other_dsn, "boom")
    await listener.until_arrived(1, SOON)


async def test_an_attempt_that_was_cut_short_is_made_in_full(
    world: World, shop, silent: Listener, listener: Listener
) -> None:
    """A receiver that takes seconds succeeds beside others that wait, with one id and body, and counts one attempt."""

    async def answer_late(_: Arrived, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(3)
        await respond(writer, 204)

    owner, project_id, dsn = shop
    listener.answering = answer_late
    made = await register(owner, project_id, listener.url)
    await log(dsn, "boom")
    await listener.until_arrived(1)
    other, other_dsn = await add(world, owner)
    for _ in range(MOST):
        await register(owner, other, silent.url)
    await log(other_dsn, "boom")
    await listener.until_arrived(2, 60)
    await until_shown(owner, project_id, made["id"], status="delivering", last_status=204)
    assert len({(one.id, one.body) for one in listener.arrived}) == 1
    assert await world.sql("select attempts, state from webhook_deliveries where webhook_id = %s", made["id"]) == [
        (1, "delivered")
    ]


def _tells(arrived: list[Arrived], case_id: str) -> bool:
    return any(one.document["data"]["case_id"] == case_id for one in arrived)  # type: ignore[index]
