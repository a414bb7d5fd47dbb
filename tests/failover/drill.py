"""The drill: failovers one after the other under load, then the books against the store, then its chains and its tree.

Each failover begins when the hosts are whole and every API machine acknowledges writes. It is over when each of them
has acknowledged a write again that was sent after the strike; that is the time in the table.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from service.registry import registry
from tests.failover.clients import (
    SDKS,
    Machine,
    Program,
    Tally,
    found_in_store,
    reporting,
    tally,
    write,
)
from tests.failover.hosts import Hosts, missing, running_hosts
from tests.failover.nemeses import Nemesis, struck
from tests.support import seen
from tests.support.api import World
from tests.support.history import Journal, check_all
from tests.support.server import ServerHandle
from tests.torture.registers import MARKER, make_registers

REGISTERS = 8
MACHINES = 2
BACK_SECONDS = 120.0
STEADY_SECONDS = 30.0
LOOK_SECONDS = 0.05
LEDGER = "erasures.jsonl"

Tell = Callable[[str], None]


@dataclass
class Failover:
    """One failover: how long each machine could not write, and when it began and ended (seconds of the epoch)."""

    nemesis: Nemesis
    began: float
    ended: float = math.inf
    back: float = math.inf


@dataclass
class Outcome:
    """What a drill found."""

    failovers: list[Failover] = field(default_factory=list)
    tallies: list[Tally] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def of(self, name: str) -> list[tuple[Failover, Tally]]:
        """The failovers of one nemesis with what was acknowledged around them."""
        both = zip(self.failovers, self.tallies, strict=False)
        return [(one, tallied) for one, tallied in both if one.nemesis.name == name]


def unable() -> str | None:
    """Why no drill can be made here; None when everything is there."""
    if not (SDKS / ".installed").exists():
        return "`make clients` installs the SDKs"
    return missing()


class Drill:
    """A service of two API machines on three database hosts, its clients, and what happens to them."""

    def __init__(self, directory: Path, programs: Path | None = None, tell: Tell = print) -> None:
        """`programs`: those of another PostgreSQL than the embedded one."""
        self._directory = directory
        self._programs = programs
        self._tell = tell
        self._journal = Journal()
        self._machines: list[Machine] = []
        self.outcome = Outcome()

    async def run(self, plan: Sequence[Nemesis]) -> Outcome:
        """Carry out failovers in this order, then check everything. Raises AssertionError when it cannot go on."""
        with ExitStack() as stack:
            hosts = stack.enter_context(running_hosts(self._place("hosts"), self._programs))
            self._tell(f"three hosts lead and follow on PostgreSQL {hosts.primary().sql('show server_version')[0][0]}")
            servers = [self._server(stack, hosts, number) for number in range(MACHINES)]
            self._machines = [Machine(server.base_url) for server in servers]
            async with seen.async_client(servers[0].base_url, timeout=30) as client:
                world = World(client, servers[0])
                person = await world.sign_in()
                project = await person.create_project()
                registers = await make_registers(world, REGISTERS)
            ended = asyncio.Event()
            with reporting(self._place("books"), [one.base_url for one in servers], project) as programs:
                writing = asyncio.create_task(write(self._machines, registers, self._journal, ended))
                try:
                    for number, nemesis in enumerate(plan, 1):
                        await self._fail_over(hosts, nemesis, writing)
                        self._tell(self._told(number, len(plan)))
                    await self._steady(hosts, writing)
                finally:
                    ended.set()
                    await writing
                    self._journal.save(self._place("books") / "writers.journal")
            await asyncio.to_thread(self._check, hosts, servers[0], programs)
        return self.outcome

    def _place(self, name: str) -> Path:
        place = self._directory / name
        place.mkdir(exist_ok=True)
        place.chmod(0o711)
        return place

    def _server(self, stack: ExitStack, hosts: Hosts, number: int) -> ServerHandle:
        """Start an API machine with its worker. The machines share what is theirs: keys, and the ledger of erasures."""
        settings = {"SERVICE_PLANS": "", "SERVICE_ERASURE_LEDGER": str(self._directory / LEDGER)}
        server = ServerHandle(self._place(f"machine{number}"), database_url=hosts.url(), env=settings)
        stack.callback(server.stop)
        server.start()
        return server

    async def _steady(self, hosts: Hosts, writing: asyncio.Task[None]) -> None:
        """Wait until the hosts are whole and each machine has just acknowledged a write."""
        await asyncio.to_thread(hosts.wait_until_whole)
        asked, give_up = time.monotonic(), time.monotonic() + STEADY_SECONDS
        while not all(machine.latest > asked for machine in self._machines):
            self._look(writing)
            assert time.monotonic() < give_up, "a machine acknowledges nothing though the hosts are whole"
            await asyncio.sleep(LOOK_SECONDS)

    async def _fail_over(self, hosts: Hosts, nemesis: Nemesis, writing: asyncio.Task[None]) -> None:
        await self._steady(hosts, writing)
        before = hosts.primary()
        failover = Failover(nemesis, time.time())
        self.outcome.failovers.append(failover)
        steps = struck(nemesis, hosts)
        at = await asyncio.to_thread(steps.__enter__)
        try:
            for machine in self._machines:
                machine.strike(at)
            while not all(machine.back for machine in self._machines):
                self._look(writing)
                seconds = time.monotonic() - at
                assert seconds < BACK_SECONDS, f"{nemesis.name}: no writes again after {seconds:.0f} s"
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            await asyncio.to_thread(steps.__exit__, None, None, None)
        failover.back = max(machine.back or math.inf for machine in self._machines)
        await asyncio.to_thread(hosts.wait_until_whole)
        failover.ended = time.time()
        if hosts.primary() is before:
            self.outcome.wrong.append(f"{nemesis.name}: {before.name} leads again, nobody took over")

    def _look(self, writing: asyncio.Task[None]) -> None:
        if writing.done():
            writing.result()

    def _told(self, number: int, plan: int) -> str:
        last = self.outcome.failovers[-1]
        whole = last.ended - last.began
        outcomes = dict(self._journal.outcomes)
        return f"{number}/{plan} {last.nemesis.name}: back {last.back:.1f} s, whole {whole:.0f} s, writes {outcomes}"

    def _check(self, hosts: Hosts, server: ServerHandle, programs: Sequence[Program]) -> None:
        """Wait for rest, then compare the books with the store, and verify the store itself."""
        give_up = time.monotonic() + STEADY_SECONDS
        while hosts.primary().sql("select count(*) from unsequenced", "service") != [(0,)]:
            assert time.monotonic() < give_up, "the log is not numbered"
            time.sleep(LOOK_SECONDS)
        found = found_in_store(hosts.url(), programs, self._journal)
        bounds = [one.began for one in self.outcome.failovers] + [math.inf]
        bounds[0] = 0.0
        for since, until in itertools.pairwise(bounds):
            self.outcome.tallies.append(tally(found, since, until))
        for program in programs:
            if not program.entries():
                self.outcome.wrong.append(f"{program.book.stem}: nothing was acknowledged")
        self.outcome.wrong += check_all(hosts.url(), self._journal, registry(), MARKER)
        for command in (["events", "verify"], ["projections", "verify"]):
            said = subprocess.run(
                [sys.executable, "-m", "service", *command],
                env=server.env,
                capture_output=True,
                text=True,
                check=False,
            )
            if said.returncode != 0:
                self.outcome.wrong.append(f"service {' '.join(command)}: {said.stdout[-2000:]}{said.stderr[-2000:]}")


def judge(outcome: Outcome) -> list[str]:
    """What broke a promise: a lost or doubled write, a write that came back too late, or a store that is not whole."""
    wrong = list(outcome.wrong)
    for name in dict.fromkeys(one.nemesis.name for one in outcome.failovers):
        both = outcome.of(name)
        late = percentile([failover.back for failover, _ in both], 0.95)
        bound = both[0][0].nemesis.within_seconds
        if late > bound:
            wrong.append(f"{name}: writes are back after {late:.1f} s (p95), not within {bound:.0f} s")
        wrong += [f"{name}: lost {what}" for _, tallied in both for what in tallied.lost]
        wrong += [f"{name}: doubled {what}" for _, tallied in both for what in tallied.doubled]
    return wrong


def table(outcome: Outcome) -> str:
    """The figures of each nemesis and of all together, as a table of Markdown."""
    lines = [
        "| Nemesis | Failovers | Acknowledged | Lost | Doubled | Back, p50 | Back, p95 |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    everything = list(zip(outcome.failovers, outcome.tallies, strict=True))
    names = dict.fromkeys(one.nemesis.name for one in outcome.failovers)
    for name, both in [*((name, outcome.of(name)) for name in names), ("all", everything)]:
        seconds = [failover.back for failover, _ in both]
        acknowledged, lost, doubled = (
            sum(counts)
            for counts in zip(*((t.acknowledged, len(t.lost), len(t.doubled)) for _, t in both), strict=True)
        )
        times = " | ".join(f"{percentile(seconds, share):.1f} s" for share in (0.5, 0.95))
        lines.append(f"| {name} | {len(both)} | {acknowledged} | {lost} | {doubled} | {times} |")
    return "\n".join(lines)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that so many are not above."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def clear(directory: Path) -> None:
    """Remove what a drill left that held its promises."""
    shutil.rmtree(directory, ignore_errors=True)
