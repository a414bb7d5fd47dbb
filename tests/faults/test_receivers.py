"""Receivers that never answer, or answer without end, cost neither memory nor another's time (P25, G-150, G-159)."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import statistics
import time
from collections.abc import AsyncIterator
from typing import Any

import psutil
import pytest

from tests.service.http.cases.test_case import log
from tests.service.webhooks.test_outbox import register
from tests.support.api import World, at_once, ok
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.listening import Answering, Arrived, Listener, listening, never

WORKER = "service.process.worker"
PLACES = 64
MOST_GROWTH = 60 * 1024 * 1024
AT_ONCE = 8
PIECE = b"0" * 65536
BOMB = gzip.compress(bytes(64 * 1024 * 1024), 9)


async def pour(_: Arrived, writer: asyncio.StreamWriter) -> None:
    """Answer with 10 GB."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10737418240\r\n\r\n")
    while True:
        writer.write(PIECE)
        await writer.drain()


async def explode(_: Arrived, writer: asyncio.StreamWriter) -> None:
    """Answer with 64 MB that are 64 kB on the wire, again and again."""
    writer.write(
        b"HTTP/1.1 500 Oh\r\ncontent-type: text/plain\r\ncontent-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    while True:
        writer.write(f"{len(BOMB):x}\r\n".encode() + BOMB + b"\r\n")
        await writer.drain()


async def trickle(_: Arrived, writer: asyncio.StreamWriter) -> None:
    """Answer with headers without end, slowly, so that each attempt lasts as long as it may."""
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"x-more: " + b"m" * 400 + b"\r\n")
        await writer.drain()
        await asyncio.sleep(0.4)


ANSWERS: tuple[Answering, ...] = (never, pour, explode, trickle)


class Storm:
    """Accounts with a webhook each at one receiver, whose last attempt succeeded."""

    def __init__(self, world: World, listener: Listener) -> None:
        self.world = world
        self.listener = listener
        self.callers: list[Any] = []
        self.rounds = 0

    async def open(self, number: int) -> None:
        """Let so many accounts register."""
        for _ in range(number // AT_ONCE):
            await at_once(AT_ONCE, lambda _: self._join())

    async def _join(self) -> None:
        owner = await self.world.sign_in()
        made = await owner.create_project()
        webhook = await register(owner, made["id"], self.listener.url)
        ok(await owner.post(f"/v1/projects/{made['id']}/webhooks/{webhook['id']}/test"))
        self.callers.append(self.world.having(made["dsn"]))

    async def blow(self) -> None:
        """Have two deliveries made for each of them."""
        self.rounds += 1
        for word in ("gull", "heron"):
            for begin in range(0, len(self.callers), AT_ONCE):
                some = self.callers[begin : begin + AT_ONCE]
                await asyncio.gather(*(log(dsn, f"{word} {'n' * self.rounds} failed") for dsn in some))


@pytest.fixture
async def storm(world: World) -> AsyncIterator[Storm]:
    async with listening() as listener:
        yield Storm(world, listener)


def rss(worker: psutil.Process) -> int:
    """Bytes of a process in memory."""
    return int(worker.memory_info().rss)


def in_flight(worker: psutil.Process, listener: Listener) -> int:
    """Connections of a process to a receiver."""
    return sum(bool(one.raddr) and one.raddr.port == listener.port for one in worker.net_connections(kind="tcp"))


async def test_answers_without_end_cost_no_memory_with_all_places_taken(storm: Storm):
    [found] = storm.world.server.processes(WORKER)
    worker = psutil.Process(found.pid)
    await storm.open(PLACES)
    before = rss(worker)
    gathered = asyncio.Event()
    kinds = itertools.cycle(ANSWERS)

    async def answer(arrived: Arrived, writer: asyncio.StreamWriter) -> None:
        await gathered.wait()
        await next(kinds)(arrived, writer)

    storm.listener.answering = answer
    work = asyncio.create_task(storm.blow())
    most, sizes, give_up = 0, [before], time.monotonic() + 120
    while not (work.done() and gathered.is_set()) or in_flight(worker, storm.listener):
        assert time.monotonic() < give_up
        most = max(most, in_flight(worker, storm.listener))
        if most > PLACES - 8:
            gathered.set()
        sizes.append(rss(worker))
        await asyncio.sleep(0.05)
    await work
    print(f"{most} in flight, {(max(sizes) - before) / 1e6:.1f} MB more")
    assert PLACES - 8 < most <= PLACES
    assert max(sizes) - before < MOST_GROWTH


async def test_accounts_that_fall_silent_delay_no_other(world: World, storm: Storm):
    await storm.open(24)
    async with listening() as own:
        owner = await world.sign_in()
        made = await owner.create_project()
        await register(owner, made["id"], own.url)
        dsn = world.having(made["dsn"])

        async def seconds_of(number: int) -> float:
            began = time.monotonic()
            await log(dsn, f"boom {'k' * number}")
            await own.until_arrived(number)
            return own.arrived[-1].at - began

        alone = [await seconds_of(number) for number in range(1, 21)]
        storm.listener.answering = never
        blowing = asyncio.create_task(storm.blow())
        await storm.listener.until_arrived(24 + 20)
        beside = [await seconds_of(number) for number in range(21, 61)]
        await blowing
    usual, storming = (statistics.quantiles(found, n=20)[-1] for found in (alone, beside))
    print(f"p95 {usual:.2f} s alone, {storming:.2f} s beside")
    assert storming < max(5 * usual, 2)
