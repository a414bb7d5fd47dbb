"""How long deliveries take from the commit of their event to the receiver, at a steady rate, from one worker (G-159).

Receivers are a process of their own, which answers at once and notes when each body was whole.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import psutil

from scripts.bench.figures import Figures, console
from scripts.load import loadgen, worlds
from service.webhooks.sending import delivery_id

ACCOUNTS = 20
A_SECOND = 200
WARM_SECONDS = 3.0
LATE_SECONDS = 30.0


class Deliveries(NamedTuple):
    """Deliveries that were due and that arrived, arrivals a second, and seconds from the commit to the receiver.

    `busy` are the seconds that the worker had a processor meanwhile.
    """

    due: int
    arrived: int
    rate: float
    busy: float
    seconds: list[float]

    def percentile(self, share: float) -> float:
        """A percentile of the seconds."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


class _Shop(NamedTuple):
    project_id: str
    dsn: str
    webhook_id: str


def measure(world: worlds.World, seconds: float) -> Deliveries:
    """Record deploys in twenty accounts with a webhook each, 200 a second in all, and wait for their deliveries."""
    with world.api(SERVICE_WEBHOOK_ALLOW_PRIVATE="1"), _receiver() as (port, read):
        shops = [_open(world, f"http://{worlds.HOST}:{port}/hook") for _ in range(ACCOUNTS)]
        asyncio.run(_record(world.port, shops, WARM_SECONDS))
        began, before = time.time(), _busy()
        asyncio.run(_record(world.port, shops, seconds))
        _wait(world)
        busy = _busy() - before
        arrivals: dict[str, float] = {}
        for delivery, at in read():
            arrivals.setdefault(delivery, at)
    hooks = {shop.project_id: shop.webhook_id for shop in shops}
    committed = world.query(
        "select project_id, event_id, extract(epoch from recorded_at)::float from events "
        "where topic = 'deploy.recorded.v1' and recorded_at >= to_timestamp(%s)",
        began,
    )
    due = {delivery_id(hooks[project], event): at for project, event, at in committed}
    waits = [arrivals[name] - at for name, at in due.items() if name in arrivals]
    lasted = max(arrivals.values()) - began
    return Deliveries(len(due), len(waits), len(waits) / lasted, busy, waits)


def _busy() -> float:
    """Seconds that the worker has had a processor."""
    [worker] = [one for one in psutil.Process().children() if "scripts.load.bench_worker" in one.cmdline()]
    times = worker.cpu_times()
    return float(times.user + times.system)


def _wait(world: worlds.World) -> None:
    """Wait until nothing is due, or for a while: what has not arrived then is missing in the figures."""
    left = (
        "select (select count(*) from webhook_deliveries where due_ms is not null) + (select size from log_state) "
        "- (select position from checkpoints where name = 'outbox')"
    )
    give_up = time.monotonic() + LATE_SECONDS
    while world.query(left) != [(0,)] and time.monotonic() < give_up:
        time.sleep(0.1)


def _open(world: worlds.World, url: str) -> _Shop:
    """Make a project of a fresh account, with a webhook that was tested."""
    world.sign_in()
    project = world.create_project("told")
    path = f"/v1/projects/{project['id']}/webhooks"
    made = world.call("POST", path, {"url": url, "events": ["deploy.recorded"]}, world.owner_key)
    assert world.call("POST", f"{path}/{made['id']}/test", None, world.owner_key)["delivered"]
    return _Shop(project["id"], project["dsn"], made["id"])


async def _record(port: int, shops: list[_Shop], seconds: float) -> None:
    """Record deploys at the steady rate, each account on a connection of its own, one after the other in turn."""
    began, step = time.perf_counter(), len(shops) / A_SECOND

    async def one(place: int, shop: _Shop) -> None:
        reader, writer = await asyncio.open_connection(worlds.HOST, port)
        headers = {"authorization": f"Bearer {shop.dsn}", "content-type": "application/json"}
        for number in range(int(seconds / step)):
            due = began + (number + place / len(shops)) * step
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            body = json.dumps({"version": f"{began}-{number}", "environment": "production"}).encode()
            writer.write(loadgen.encode(worlds.HOST, ("POST", "/v1/deploys/", headers, body)))
            status, _, answer = await loadgen.receive(reader)
            assert status == 202, answer
        writer.close()

    await asyncio.gather(*(one(place, shop) for place, shop in enumerate(shops)))


@contextmanager
def _receiver() -> Iterator[tuple[int, Any]]:
    """Run a receiver; yields its port, and what reads its arrivals once it is over."""
    command = [sys.executable, "-m", "scripts.bench.deliveries"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=worlds.ROOT
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        port = int(process.stdout.readline())

        def read() -> list[tuple[str, float]]:
            text, _ = process.communicate("", timeout=LATE_SECONDS)
            return [(name, at) for name, at in json.loads(text)]

        try:
            yield port, read
        finally:
            process.kill()


class _Receiving(asyncio.Protocol):
    """One connection: reads one request, notes the moment, and answers."""

    def __init__(self, arrivals: list[tuple[str, float]]) -> None:
        self._arrivals = arrivals
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer once the body is whole."""
        self._data += data
        head, found, body = self._data.partition(b"\r\n\r\n")
        if not found:
            return
        headers = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        if len(body) < int(headers[b"content-length"]):
            return
        self._arrivals.append((headers[b"webhook-id"].decode(), time.time()))
        self._transport.write(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")
        self._transport.close()


async def _receive() -> None:
    """Say the port, receive until standard input ends, and say what has arrived."""
    arrivals: list[tuple[str, float]] = []
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Receiving(arrivals), worlds.HOST, 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    print(json.dumps(arrivals))


def measure_deliveries(figures: Figures, world: worlds.World, seconds: float) -> None:
    """Deliver 200 events a second to 20 webhooks of 20 accounts from one worker."""
    found = measure(world, 2 * seconds)
    middle, late = found.percentile(0.5), found.percentile(0.99)
    console.print(
        f"  deliveries: {found.arrived} of {found.due} arrived, {middle:.2f} s (p50), {late:.2f} s (p99), "
        f"{1000 * found.busy / max(found.arrived, 1):.1f} ms of a processor each"
    )
    figures.add("deliveries from one worker", found.rate, "/s", yardstick=A_SECOND, promised=0.95)
    figures.add("deliveries that arrived", found.arrived, "", yardstick=found.due, promised=1)
    figures.add("commit to receiver at 200/s, p99", late, "s", yardstick=1, promised=2, most=True)


if __name__ == "__main__":
    asyncio.run(_receive())
