"""Deliveries survive workers that die at any line, and two workers send what one would (R-WEB-07, G-091)."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
import time
from typing import Any

import psutil

from tests.service.http.cases.test_acting import act
from tests.service.http.cases.test_case import log
from tests.service.webhooks.test_outbox import listener as listener  # noqa: PLC0414 (fixtures are found by name)
from tests.service.webhooks.test_outbox import register
from tests.service.webhooks.test_outbox import shop as shop  # noqa: PLC0414
from tests.support.api import World, at_once
from tests.support.api import world as world  # noqa: PLC0414
from tests.support.listening import Arrived, Listener

WORKER = "service.process.worker"
CASES = 40
KILLS = 6
MOST_GROWTH = 60 * 1024 * 1024


def first_arrivals(listener: Listener) -> dict[str, Arrived]:
    """What arrived, each delivery once."""
    found: dict[str, Arrived] = {}
    for one in listener.arrived:
        found.setdefault(one.id, one)
    return found


async def lives(dsn: Any, owner: Any, number: int) -> None:
    """Open a case, close it, and have it come back."""
    message = "boom " + "".join("ghjklmnpqr"[int(digit)] for digit in str(100 + number))  # no number, no hexadecimal id
    case_id = (await log(dsn, message))["case_id"]
    await act(owner, case_id, "resolve", 1)
    await log(dsn, message)


def check(listener: Listener, secret: str, cases: int) -> None:
    """Each event of each case once by its id, with one body, and in order for each case."""
    found = first_arrivals(listener)
    bodies: dict[str, set[bytes]] = {}
    for one in listener.arrived:
        bodies.setdefault(one.id, set()).add(one.body)
        one.verify(secret)
    assert all(len(versions) == 1 for versions in bodies.values())
    of_case: dict[Any, list[Any]] = {}
    for one in found.values():
        data: Any = one.document["data"]
        of_case.setdefault(data["case_id"], []).append(data["revision"])
    assert len(of_case) == cases
    assert set(map(tuple, of_case.values())) == {(1, 2, 3)}


async def test_a_worker_killed_at_random_moments_loses_nothing(world: World, shop, listener: Listener):
    owner, project_id, dsn = shop
    made = await register(owner, project_id, listener.url)
    work = asyncio.create_task(at_once(CASES, lambda number: lives(dsn, owner, number)))
    for _ in range(KILLS):
        await asyncio.sleep(random.uniform(0.05, 0.4))
        for worker in world.server.processes(WORKER):
            worker.send_signal(signal.SIGKILL)
        give_up = time.monotonic() + 20
        while not world.server.processes(WORKER):
            assert time.monotonic() < give_up
            await asyncio.sleep(0.05)
    await work
    give_up = time.monotonic() + 60
    while len(first_arrivals(listener)) < 3 * CASES:
        assert time.monotonic() < give_up, len(first_arrivals(listener))
        await asyncio.sleep(0.5)
        await world.wait(20)  # what a killed worker had taken is due again
    check(listener, made["secret"], CASES)


async def test_two_workers_send_each_delivery_once(world: World, shop, listener: Listener):
    owner, project_id, dsn = shop
    made = await register(owner, project_id, listener.url)
    second = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "service", "worker", env=world.server.env, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        give_up = time.monotonic() + 20
        while await readers(world) < 2:
            assert time.monotonic() < give_up
            await asyncio.sleep(0.1)
        await at_once(CASES, lambda number: lives(dsn, owner, number))
        await listener.until_arrived(3 * CASES, 60)
        await asyncio.sleep(1)
        assert second.returncode is None
    finally:
        second.terminate()
        await second.wait()
    assert len(listener.arrived) == 3 * CASES
    check(listener, made["secret"], CASES)


async def readers(world: World) -> int:
    """Workers that read the log for the outbox."""
    query = (
        "select count(*) from pg_stat_activity "
        "where application_name = 'service-outbox' and datname = current_database()"
    )
    return int((await world.sql(query))[0][0])


async def test_an_answer_without_end_costs_no_memory(world: World, shop, listener: Listener):
    owner, project_id, dsn = shop
    sent = 0

    async def pour(_: Arrived, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 10737418240\r\n\r\n")
        while True:
            writer.write(b"\x1f\x8b" * 32768)
            await writer.drain()
            sent += 65536

    [worker] = world.server.processes(WORKER)
    before = psutil.Process(worker.pid).memory_info().rss
    await register(owner, project_id, listener.url)
    listener.answering = pour
    await at_once(20, lambda number: log(dsn, f"boom {'z' * number}"))
    await listener.until_arrived(20, 30)
    query = "select count(*) from webhook_deliveries where project_id = %s and state = 'delivered'"
    give_up = time.monotonic() + 20
    while await world.sql(query, project_id) != [(20,)]:
        assert time.monotonic() < give_up
        await asyncio.sleep(0.1)
    assert sent < 20 * 8 * 1024 * 1024
    assert psutil.Process(worker.pid).memory_info().rss - before < MOST_GROWTH
