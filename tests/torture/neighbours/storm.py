"""P25: each shape of an attack in turn on one API process, and what its neighbours saw of it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psutil

from tests.support.cluster import TestCluster
from tests.support.server import ServerHandle
from tests.torture.neighbours.attacker import Holdings, Tally
from tests.torture.neighbours.attacks import BEGUN
from tests.torture.neighbours.doors import HANGING
from tests.torture.neighbours.victims import BESIDE, FURTHER, KINDS, Seen, Tenant, Victim, work
from tests.torture.neighbours.wire import Wire
from tests.torture.neighbours.world import Builder, Extent

ROOT = Path(__file__).parents[3]
RATIO = 5  # how much slower than idle
FENCE_MOST = 2.0  # seconds
TOLD_MOST = 5.0  # seconds to the first attempt at a webhook
GROWTH_MOST = 100.0  # MB above idle while it lasts
GROWTH_KEPT = 25.0  # MB above idle that count as back to it
BACK_SECONDS = 60.0
NOT_BUILT = 501
CROWDED_LITTLE = 1.2
FRESH = frozenset({"tools"})  # shapes that meet a process which has just been started
PROXY = "127.0.0.1/32"  # by which strangers have addresses of their own
HANGS = f"""
import socket, threading

find = socket.getaddrinfo

def hang(host, *more, **named):
    if str(host).endswith({HANGING!r}):
        threading.Event().wait(30)
    return find(host, *more, **named)

socket.getaddrinfo = hang
"""
"""What each process of the service loads first: a resolver that gives no answer for certain names."""
QUIET_TURNS = 5


@dataclass(frozen=True)
class Marks:
    """How long each part lasts in seconds, and what is asked of it."""

    idle: float
    attack: float
    warm: float  # seconds from the beginning of the attack that do not count
    through: int  # requests that the attacker must have got through
    floor: float  # seconds that a p95 may always take
    scale: float = 1.0  # share of the attacker's connections, where there are very many
    fences: float = 5.0  # seconds between two fences of a victim
    memory_back: bool = True
    patient: bool = False  # what others on the machine make the service wait counts as theirs


SHORT = Marks(
    idle=2, attack=1.5, warm=0.3, through=5, floor=0.5, scale=0.3, fences=0.7, memory_back=False, patient=True
)
FULL = Marks(idle=20, attack=60, warm=2, through=100, floor=0.05, patient=True)


@dataclass(frozen=True)
class Verdict:
    """What one shape did: the neighbours' p95 in seconds by kind, idle and attacked, and what was wrong."""

    shape: str
    idle: dict[str, float]
    attacked: dict[str, float]
    growth: float  # MB
    crowded: float  # how many times longer the service took because others had the processors; 1: never
    tally: Tally
    wrong: list[str]

    @property
    def built(self) -> bool:
        """Whether the service has what the shape attacks."""
        return set(self.tally.statuses) != {NOT_BUILT}

    def __str__(self) -> str:
        kinds = (*KINDS, *BESIDE.get(self.shape, ()))
        times = ", ".join(f"{kind} {1000 * self.idle[kind]:.0f} → {1000 * self.attacked[kind]:.0f}" for kind in kinds)
        answers = dict(sorted(self.tally.statuses.items()))
        crowded = f"crowded {self.crowded:.1f} x; " if self.crowded > CROWDED_LITTLE else ""
        told = f"attacker {answers} {self.tally.opened or ''}"
        return f"{self.shape}: p95 in ms {times}; {self.growth:+.0f} MB; {crowded}{told}"


class Street:
    """A service of one API process with its three tenants."""

    def __init__(self, server: ServerHandle, tenants: list[Tenant], attacker: Callable[..., Holdings]) -> None:
        self.server = server
        self._attacker = attacker
        self._wire = Wire("127.0.0.1", server.port)
        self._victims = [Victim(self._wire, tenant) for tenant in tenants]

    async def quiet(self, marks: Marks) -> Seen:
        """Let the neighbours work undisturbed; the first turn warms everything up.

        A machine that cannot do even this is given a few turns to come to rest.
        """
        await work(self._victims, marks.idle / 2, fences=marks.fences, further=FURTHER)
        for _ in range(QUIET_TURNS):
            seen = await work(self._victims, marks.idle, fences=marks.fences, further=FURTHER)
            if not seen.wrong:
                break
        return seen

    async def attack(self, shape: str, idle: Seen, marks: Marks) -> Verdict:
        """Carry a shape out, and judge what the neighbours saw meanwhile."""
        if shape in FRESH:
            await self._start_again()
            await work(self._victims, marks.idle / 2, fences=marks.fences)
        before, serving = self.memory(), {process.pid for process in self._serving()}
        holdings = self._attacker(self.server.port, marks.attack + marks.warm, marks.scale)
        attack = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.torture.neighbours.attacks",
            shape,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert attack.stdin is not None
        assert attack.stdout is not None
        attack.stdin.write(msgspec.json.encode(holdings))
        attack.stdin.close()
        peaks: list[float] = []
        ran, waited = self._processors()
        watching = asyncio.create_task(self._watch(peaks))
        try:
            assert (await attack.stdout.readline()).decode().strip() == BEGUN
            await asyncio.sleep(marks.warm)
            seen = await work(self._victims, marks.attack, fences=marks.fences, further=BESIDE.get(shape, ()))
            told = await asyncio.wait_for(attack.stdout.read(), 60)
            await attack.wait()
        finally:
            watching.cancel()
            if attack.returncode is None:
                attack.kill()
        if {process.pid for process in self._serving()} != serving:
            raise AssertionError("the process that serves has died, and another serves now")
        after_ran, after_waited = self._processors()
        crowded = 1 + (after_waited - waited) / max(1, after_ran - ran)
        tally = msgspec.json.decode(told, type=Tally)
        growth = max([*peaks, before]) - before
        verdict = Verdict(
            shape,
            {kind: idle.late(kind) for kind in idle.times},
            {kind: seen.late(kind) for kind in seen.times},
            growth,
            crowded,
            tally,
            _judge(idle, seen, tally, growth, marks, crowded if marks.patient else 1),
        )
        if marks.memory_back and not await self._is_back(before):
            verdict.wrong.append(f"{self.memory() - before:.0f} MB were kept {BACK_SECONDS:.0f} s later")
        return verdict

    async def _start_again(self) -> None:
        await self._wire.close()
        await asyncio.to_thread(self.server.stop)
        await asyncio.to_thread(self.server.start)

    @asynccontextmanager
    async def told(self) -> AsyncIterator[None]:
        """Receive what the neighbours' webhooks are told while a block runs."""
        async with AsyncExitStack() as stack:
            for victim in self._victims:
                await stack.enter_async_context(victim.listening())
            yield

    def memory(self) -> float:
        """Proportional set size of the process that serves, in MB."""
        return max(float(process.memory_full_info().pss) for process in self._serving()) / 1e6

    def _serving(self) -> list[psutil.Process]:
        """Those that serve, without the one that starts them; a process that tries a map may be their child."""
        serving = self.server.processes("service.process.serving")
        starting = {process.ppid() for process in serving}
        return [process for process in serving if process.pid not in starting]

    def _processors(self) -> tuple[int, int]:
        """Nanoseconds that the threads of the process that serves have run, and have waited for a processor."""
        ran = waited = 0
        for process in self._serving():
            for told in Path(f"/proc/{process.pid}/task").glob("*/schedstat"):
                with suppress(OSError):  # the thread has ended
                    run, wait, _ = told.read_text().split()
                    ran, waited = ran + int(run), waited + int(wait)
        return ran, waited

    async def _watch(self, peaks: list[float]) -> None:
        while True:
            try:
                peaks.append(await asyncio.to_thread(self.memory))
            except psutil.Error as gone:
                raise AssertionError("the process that serves has died") from gone
            await asyncio.sleep(0.5)

    async def _is_back(self, before: float) -> bool:
        for _ in range(int(BACK_SECONDS)):
            if self.memory() <= before + GROWTH_KEPT:
                return True
            await asyncio.sleep(1)
        return False

    async def close(self) -> None:
        """Close the neighbours' connections."""
        await self._wire.close()


def _judge(idle: Seen, seen: Seen, tally: Tally, growth: float, marks: Marks, crowded: float) -> list[str]:
    """The pass marks of P25; times may be as many times longer as the machine was `crowded`."""
    wrong = list(seen.wrong)
    for kind in ("write", "read", "log", "sign_in", "query"):
        most = crowded * max(RATIO * idle.late(kind), marks.floor)
        if seen.late(kind) > most:
            wrong.append(f"p95 of a {kind} was {1000 * seen.late(kind):.0f} ms, at most {1000 * most:.0f}")
    slowest = max(seen.times["fence"], default=FENCE_MOST + 1)
    if slowest > crowded * FENCE_MOST:
        wrong.append(f"a fence took {slowest:.1f} s")
    longest = max(seen.times["told"], default=0.0)
    if longest > crowded * TOLD_MOST:
        wrong.append(f"a webhook was told after {longest:.1f} s")
    if growth > GROWTH_MOST:
        wrong.append(f"the process grew by {growth:.0f} MB")
    if set(tally.statuses) != {NOT_BUILT} and tally.through < marks.through:
        wrong.append(f"the attacker got {tally.through} requests through: {tally}")
    return wrong


@asynccontextmanager
async def street(cluster: TestCluster, directory: Path, extent: Extent) -> AsyncIterator[Street]:
    """Make the tenants on a service without limits, then start it again, cold and with its usual limits."""
    with cluster.database() as url:
        server = ServerHandle(directory, database_url=url, env={"SERVICE_WORKERS": "1"})
        try:
            await asyncio.to_thread(server.start)
            builder = Builder(server.port, url, server.internal_token, server.test_token)
            tenants = await asyncio.to_thread(lambda: [builder.tenant(), builder.tenant()])
            attacker = await asyncio.to_thread(builder.attacker, extent)
            server.stop()
            server.env |= {"SERVICE_RATE_LIMITS": "on", "SERVICE_TRUSTED_PROXIES": PROXY}
            resolver = directory / "resolver"
            resolver.mkdir()
            (resolver / "sitecustomize.py").write_text(HANGS)
            server.env["PYTHONPATH"] = str(resolver)
            await asyncio.to_thread(server.start)
            made = Street(server, tenants, attacker)
            try:
                async with made.told():
                    yield made
            finally:
                await made.close()
        finally:
            server.stop()
