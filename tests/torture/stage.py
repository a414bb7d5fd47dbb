"""The environment of a storm: a service of several processes, its database, its clients, and the faults."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx2
import psutil
import psycopg

from service.registry import registry
from tests.support import seen
from tests.support.api import World
from tests.support.history import Journal, check_all
from tests.support.server import ServerHandle
from tests.torture.registers import MARKER, Register, Writer, make_registers

TIMEOUT = httpx2.Timeout(8.0, connect=2.0)
SETTLE_SECONDS = 30.0
PATIENCE_SECONDS = 60.0


def longest(seconds: float) -> float:
    """The seconds after which a storm that is to last `seconds` ends though too little has happened."""
    return max(3 * seconds, PATIENCE_SECONDS)


@dataclass
class Stage:
    """One service in one storm."""

    server: ServerHandle
    url: str  # the database itself, past any proxy
    world: World
    registers: list[Register]
    base_url: str
    journal: Journal = field(default_factory=Journal)
    fired: Counter[str] = field(default_factory=Counter)
    recoveries: list[float] = field(default_factory=list)
    _struck_at: float | None = None

    def writer(self, client: httpx2.AsyncClient) -> Writer:
        return Writer(client, self.journal, self._heard)

    def _heard(self, sent: float) -> None:
        """Note the first success after a strike, among the requests that were sent after it."""
        if self._struck_at is not None and sent > self._struck_at:
            self.recoveries.append(time.monotonic() - self._struck_at)
            self._struck_at = None

    # -- faults ------------------------------------------------------------------------------------------------

    def serving(self) -> list[psutil.Process]:
        """The processes that serve HTTP, without their parent."""
        found = self.server.processes("service.process.serving")
        watching = {child.pid for child in found if child.ppid() == self.server.pid}
        return [child for child in found if child.pid not in watching]

    def kill_api(self, *, everyone: bool = False) -> None:
        """Kill one serving process (SIGKILL), or all of them."""
        with suppress(psutil.Error):
            alive = self.serving()
            for child in alive if everyone else random.sample(alive, min(1, len(alive))):
                child.kill()
                self.fired["api killed"] += 1
            if everyone and alive:
                self._struck_at = time.monotonic()

    def kill_worker(self) -> None:
        """Kill the worker (SIGKILL), and with it the sequencer."""
        with suppress(psutil.Error):
            for child in self.server.processes("service.process.worker"):
                child.kill()
                self.fired["worker killed"] += 1

    def end_sessions(self) -> None:
        """End the committing sessions in the database."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            [[ended]] = connection.execute(
                "select count(pg_terminate_backend(pid)) from pg_stat_activity "
                "where application_name = 'service-loop' and datname = current_database()"
            ).fetchall()
        self.fired["sessions ended"] += ended

    def counts(self, **at_least: int) -> bool:
        """Whether there are so many results (ok, fail, info), answers of a status (s412), or faults."""
        outcomes, statuses = self.journal.outcomes, self.journal.statuses
        seen = {**outcomes, **{f"s{status}": number for status, number in statuses.items()}, **self.fired}
        seen["doubts"] = self.journal.doubts
        return all(seen.get(name.replace("_", " "), 0) >= least for name, least in at_least.items())

    @asynccontextmanager
    async def struck(self, strike: Callable[[], Any], gaps: tuple[float, float]) -> AsyncIterator[None]:
        """Inject a fault repeatedly, at random moments, while a block runs."""

        async def again() -> None:
            while True:
                await asyncio.sleep(random.uniform(*gaps))
                await asyncio.to_thread(strike)

        task = asyncio.create_task(again())
        try:
            yield
            assert not task.done(), task.exception()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def run(
        self, clients: int, seconds: float, turn: Callable[[Writer, int], Awaitable[Any]], enough: Callable[[], bool]
    ) -> None:
        """Run so many clients for so long, and longer (see `longest`) until the minimum counts are reached."""
        began = time.monotonic()

        def over() -> bool:
            passed = time.monotonic() - began
            return passed >= longest(seconds) or (passed >= seconds and enough())

        limits = httpx2.Limits(max_connections=clients, max_keepalive_connections=clients)
        async with seen.async_client(self.base_url, timeout=TIMEOUT, limits=limits) as client:
            writer = self.writer(client)

            async def take_turns(number: int) -> None:
                while not over():
                    await turn(writer, number)

            await asyncio.gather(*(take_turns(number) for number in range(clients)))

    # -- afterwards --------------------------------------------------------------------------------------------

    async def settle(self) -> None:
        """Wait until the service is ready again and the log is fully numbered."""
        until = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < until:
            with suppress(httpx2.TransportError, psycopg.OperationalError):
                answer = await self.world.client.get("/health/ready", timeout=TIMEOUT)
                [[waiting]] = await self.world.sql("select count(*) from unsequenced")
                if answer.status_code == 200 and waiting == 0:
                    return
            await asyncio.sleep(0.05)
        raise AssertionError("the service did not come to rest")

    async def check(self) -> list[str]:
        """Everything that must hold afterwards."""
        await self.settle()
        return await asyncio.to_thread(check_all, self.url, self.journal, registry(), MARKER)

    def summary(self) -> str:
        """One line of progress."""
        recovered = sorted(self.recoveries)
        slowest = ""
        if recovered:
            late = recovered[int(0.95 * (len(recovered) - 1))]
            slowest = f", {len(recovered)} times all were killed: back after {late:.1f} s (p95), {recovered[-1]:.1f} s"
        return (
            f"{dict(self.journal.outcomes)}, {dict(self.journal.statuses)}, {self.journal.doubts} doubtful attempts, "
            f"{dict(self.fired)}{slowest}"
        )


@asynccontextmanager
async def stage(server: ServerHandle, url: str, *, registers: int, base_url: str | None = None) -> AsyncIterator[Stage]:
    """Prepare the storm on a running service."""
    async with seen.async_client(server.base_url, timeout=30) as client:
        server_url, server.database_url = server.database_url, url
        world = World(client, server)
        yield Stage(server, url, world, await make_registers(world, registers), base_url or server.base_url)
        server.database_url = server_url
