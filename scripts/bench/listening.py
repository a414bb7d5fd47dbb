"""What a thousand requests that wait cost a process, and how soon they and a thousand streams hear of a change.

Ten accounts have ten projects each, with a run that is under way. Ten requests wait for each run (G-167), and after
them ten streams follow each project (G-169). The runs are moved on by charges, in turn.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from scripts.bench.figures import Figures, console, seconds_of_api
from scripts.load import loadgen, worlds
from scripts.load.automation_world import open_shops, start_run

ACCOUNTS = 10
SHOPS = 10
LISTENERS = 10  # of each run or project
CHANGES = 5  # a second, while requests wait
EVENTS = 50  # a second, while streams follow
BEGIN_AT_ONCE = 20
QUIET = 2.0  # seconds in which the last listeners hear of the last change
PATIENCE = 120.0
PROJECT_EVENT = b"\ndata: "
LAST_CHUNK = b"\r\n0\r\n\r\n"


class Waiting(NamedTuple):
    """Processor time of the API in percent of a core, and milliseconds from a change to the waiting caller.

    `idle` is the share without any waiter, `standing` with all of them and no change.
    """

    waiters: int
    idle: float
    standing: float
    milliseconds: list[float]


class Following(NamedTuple):
    """Milliseconds from the record of an event to its reader, and from a removal to the end of the member's stream."""

    readers: int
    events: int
    milliseconds: list[float]
    ended: float


@dataclass
class _Held:
    """A run that is moved on, with the last change of it: its revision, and when the answer to it came."""

    shop: str
    run: str
    owner: str
    runner: str
    epoch: int
    revision: int
    changed: dict[int, float] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return f"/v1/automation-runs/{self.run}"


def percentile(values: list[float], share: float) -> float:
    """A percentile; not a number of nothing."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def measure(world: worlds.World, seconds: float) -> tuple[Waiting, Following]:
    """Measure the waits, then the streams, on the same runs."""
    idle = _busy(lambda: time.sleep(seconds)) / seconds
    held = _open(world)
    waiting = asyncio.run(_wait(world.port, held, seconds, 100 * idle))
    return waiting, asyncio.run(_follow(world, held, seconds))


def _open(world: worlds.World) -> list[_Held]:
    held = []
    for _ in range(ACCOUNTS):
        world.sign_in()
        for shop in open_shops(world, SHOPS):
            run, epoch = start_run(world, shop)
            revision = world.call("GET", f"/v1/automation-runs/{run}", None, shop.owner)["state_revision"]
            held.append(_Held(shop.id, run, shop.owner, shop.runner, epoch, revision))
    return held


def _busy(during: Callable[[], None]) -> float:
    """Seconds of a processor that the API process takes during a call."""
    before = seconds_of_api()
    during()
    return seconds_of_api() - before


async def _wait(port: int, held: list[_Held], seconds: float, idle: float) -> Waiting:
    heard: list[float] = []
    standing = 0
    gate = asyncio.Semaphore(BEGIN_AT_ONCE)
    ready = asyncio.Event()

    async def one(of: _Held) -> None:
        nonlocal standing
        async with _connected(port) as (reader, writer), asyncio.timeout(PATIENCE + 3 * seconds):
            known = of.revision
            async with gate:
                writer.write(_asking(port, f"{of.path}?wait=60&revision={known}", of.owner))
                await asyncio.sleep(0.2)  # A hundred a second: each begins with reads in its account's turn.
            standing += 1
            if standing == len(held) * LISTENERS:
                ready.set()
            while True:
                status, _, body = await loadgen.receive(reader)
                arrived = time.perf_counter()
                assert status == 200, (status, body)
                known = json.loads(body)["state_revision"]
                if known in of.changed:
                    heard.append(1000 * (arrived - of.changed[known]))
                writer.write(_asking(port, f"{of.path}?wait=60&revision={known}", of.owner))

    tasks = [asyncio.create_task(one(of)) for of in held for _ in range(LISTENERS)]
    async with asyncio.timeout(PATIENCE):
        await ready.wait()
    await asyncio.sleep(QUIET)
    before = seconds_of_api()
    await asyncio.sleep(seconds)
    share = 100 * (seconds_of_api() - before) / seconds
    await _move(port, held, CHANGES, seconds)
    await asyncio.sleep(QUIET)
    await _end(tasks)
    return Waiting(len(tasks), idle, share, heard)


async def _follow(world: worlds.World, held: list[_Held], seconds: float) -> Following:
    port, heard, standing = world.port, list[float](), 0
    ready = asyncio.Event()
    gate = asyncio.Semaphore(BEGIN_AT_ONCE)
    began = time.time()

    async def one(of: _Held) -> None:
        nonlocal standing
        async with _connected(port) as (reader, writer):
            async with gate:
                writer.write(_asking(port, f"/v1/projects/{of.shop}/events?after={tail}", of.owner, stream=True))
                assert b" 200 " in (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n", 1)[0]
            standing += 1
            if standing == len(held) * LISTENERS:
                ready.set()
            async for recorded, arrived in _events(reader):
                if recorded >= began:
                    heard.append(1000 * (arrived - recorded))

    [[tail]] = world.query("select size from log_state")
    tasks = [asyncio.create_task(one(of)) for of in held for _ in range(LISTENERS)]
    async with asyncio.timeout(PATIENCE):
        await ready.wait()
    await asyncio.sleep(QUIET)
    began = time.time()
    await _move(port, held, EVENTS, seconds)
    await asyncio.sleep(QUIET)
    ended = await _removed(world, held[0])
    await _end(tasks)
    return Following(len(tasks), round(EVENTS * seconds), heard, ended)


async def _events(reader: asyncio.StreamReader) -> AsyncIterator[tuple[float, float]]:
    """When each event was recorded, and when it was whole here, in seconds since the epoch."""
    rest = b""
    while True:
        rest += await reader.read(65_536)
        *whole, rest = rest.split(b"\n\n")
        for block in whole:
            _, found, data = block.partition(PROJECT_EVENT)
            if found:
                yield json.loads(data.split(b"\r\n")[0])["recorded_at"] / 1e6, time.time()


async def _move(port: int, held: list[_Held], a_second: int, seconds: float) -> None:
    """Charge runs in turn, so many a second; the charges of different runs overlap."""
    began, charges = time.perf_counter(), []
    for number in range(round(a_second * seconds)):
        await asyncio.sleep(max(0.0, began + number / a_second - time.perf_counter()))
        charges.append(asyncio.create_task(_charge(port, held[number % len(held)])))
    await asyncio.gather(*charges)


async def _charge(port: int, of: _Held) -> None:
    token = {"state_revision": of.revision, "lease_epoch": of.epoch}
    charge = token | {"turns": 0, "cost_usd": 0.000001, "runtime_seconds": 0}
    headers = {"idempotency-key": secrets.token_hex(8), "content-type": "application/json"}
    request = ("POST", f"{of.path}/usage", _headed(of.runner) | headers, json.dumps(charge).encode())
    async with _connected(port) as (reader, writer):
        writer.write(loadgen.encode(f"{worlds.HOST}:{port}", request))
        status, _, body = await loadgen.receive(reader)
    assert status == 200, (status, body)
    of.revision = json.loads(body)["state_revision"]
    of.changed[of.revision] = time.perf_counter()


async def _removed(world: worlds.World, of: _Held) -> float:
    """Let a second owner follow a project, and remove them: milliseconds until their stream has ended."""
    guest, address = await asyncio.to_thread(_guest, world)
    members = f"/v1/projects/{of.shop}/members"

    def call(method: str, path: str, body: Any, secret: str) -> Any:
        return world.call(method, path, body, secret)

    made = await asyncio.to_thread(call, "POST", members, {"email": address, "role": "owner"}, of.owner)
    accept = f"/v1/members/invitations/{made['invitation_id']}/accept"
    joined = await asyncio.to_thread(call, "POST", accept, {}, guest)
    async with _connected(world.port) as (reader, writer):
        writer.write(_asking(world.port, f"/v1/projects/{of.shop}/events?after=0", guest, stream=True))
        await reader.readuntil(PROJECT_EVENT)
        rest = asyncio.create_task(reader.readuntil(LAST_CHUNK))
        await asyncio.to_thread(call, "DELETE", f"{members}/{joined['user_id']}", None, of.owner)
        answered = time.perf_counter()
        async with asyncio.timeout(PATIENCE):
            await rest
    return 1000 * (time.perf_counter() - answered)


def _guest(world: worlds.World) -> tuple[str, str]:
    """Somebody with a verified address; returns their key and the address."""
    address = f"{secrets.token_hex(6)}@example.com"
    start = world.call("POST", "/v1/auth/device", {}, None)
    identity = {"provider": "bench", "subject": address, "email": address, "email_verified": True}
    body = {"user_code": start["user_code"], "identity": identity}
    world.call("POST", "/v1/auth/device/authorize", body, world.internal_token)
    polled = world.call("POST", "/v1/auth/device/poll", {"device_code": start["device_code"]}, None)
    return polled["api_key"], address


def _headed(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


def _asking(port: int, path: str, secret: str, *, stream: bool = False) -> bytes:
    headers = _headed(secret) | ({"accept": "text/event-stream"} if stream else {})
    return loadgen.encode(f"{worlds.HOST}:{port}", ("GET", path, headers, b""))


@asynccontextmanager
async def _connected(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(worlds.HOST, port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel them, and raise what any of them had met before."""
    failed = [task for task in tasks if task.done()]
    for task in tasks:
        task.cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError):
            await task
    assert not failed, "each listens to the end"


def measure_listening(figures: Figures, world: worlds.World, seconds: float) -> None:
    """Hold a thousand waiting requests, then a thousand streams, and tell them of changes (G-167, G-169)."""
    waiting, following = measure(world, seconds)
    late = waiting.milliseconds
    console.print(
        f"  {waiting.waiters} wait: processor {waiting.standing:.1f} % of a core, {waiting.idle:.1f} % without them; "
        f"{len(late)} heard of a change after p50 {percentile(late, 0.5):.0f} ms"
    )
    cost = waiting.standing - waiting.idle
    figures.add("1,000 waiting requests, processor", cost, "% of a core", yardstick=1, promised=10, most=True)
    learned = percentile(late, 0.95)
    figures.add("a change heard by who waits, p95", learned, "ms", yardstick=1, promised=100, most=True)
    late = following.milliseconds
    console.print(f"  {following.readers} streams were told of {following.events} changes in {len(late)} events")
    told = percentile(late, 0.99)
    figures.add("an event in 1,000 streams, p99", told, "ms", yardstick=1, promised=1000, most=True)
    figures.add("end of a removed member's stream", following.ended, "ms", yardstick=1, promised=1000, most=True)
