"""Clients of two API machines, each with a book of what was acknowledged: fenced writers, and programs with SDKs."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import psycopg

from tests.support import seen
from tests.support.history import Journal, Op, read_store
from tests.torture.registers import MARKER, Register, Writer

ROOT = Path(__file__).parents[2]
SDKS = ROOT / ".clients"
PROGRAM = Path(__file__).parent / "programs" / "reporting.py"
KINDS = ("sentry", "posthog")
TIMEOUT = httpx2.Timeout(8.0, connect=2.0)
WRITERS = 3
PACE_SECONDS = 0.2
END_SECONDS = 60.0
ROWS = {
    "sentry": "select user_id, count(*) from log_events where project_id = %s group by user_id",
    "posthog": "select distinct_id, count(*) from analytics_events where project_id = %s group by distinct_id",
}
"""How often each report of a program is stored."""


class FencedWriter(Writer):
    """A writer of registers over one API machine, which notes when a request that was sent then was acknowledged."""

    def __init__(self, client: httpx2.AsyncClient, journal: Journal, machine: Machine) -> None:
        super().__init__(client, journal, lambda _: None)
        self._machine = machine

    async def _send(self, op: Op, register: Register, body: Any, tag: str) -> httpx2.Response | None:
        sent = time.monotonic()
        answer = await super()._send(op, register, body, tag)
        if answer is not None and answer.status_code == 200:
            self._machine.acknowledged(sent)
        return answer


@dataclass
class Machine:
    """An API machine as its clients see it."""

    base_url: str
    latest: float = 0.0  # when the last acknowledged write was sent
    back: float | None = None
    _struck: float | None = None

    def strike(self, at: float) -> None:
        """Ask for the first write that is sent after this moment and acknowledged."""
        self._struck, self.back = at, None

    def acknowledged(self, sent: float) -> None:
        """Note an acknowledged write."""
        self.latest = max(self.latest, sent)
        if self._struck is not None and self.back is None and sent > self._struck:
            self.back = time.monotonic() - self._struck


async def write(machines: Sequence[Machine], registers: Sequence[Register], journal: Journal, ended: asyncio.Event):
    """Write registers over all machines until the end, whatever happens; rivals meet on each register."""

    async def turns(machine: Machine, client: httpx2.AsyncClient) -> None:
        writer = FencedWriter(client, journal, machine)
        while not ended.is_set():
            register = random.choice(registers)
            op = await writer.write(register, persist=random.random() < 0.8)
            if op.outcome != "ok":
                await writer.read(register)
            await asyncio.sleep(random.uniform(0, 2 * PACE_SECONDS))

    async def on(machine: Machine) -> None:
        async with seen.async_client(machine.base_url, timeout=TIMEOUT) as client:
            await asyncio.gather(*(turns(machine, client) for _ in range(WRITERS)))

    await asyncio.gather(*(on(machine) for machine in machines))


@dataclass
class Tally:
    """What was acknowledged in a span of time, and what became of it."""

    acknowledged: int = 0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)


Entry = tuple[float, str]
"""When something was acknowledged (seconds of the epoch), and its name."""


@dataclass
class Program:
    """A program with an SDK that reports to a project."""

    kind: str
    book: Path
    project_id: str
    process: subprocess.Popen[bytes]

    def entries(self) -> list[Entry]:
        """What its book says was acknowledged."""
        lines = self.book.read_text().splitlines() if self.book.exists() else []
        return [(float(at), user) for at, user in (line.split() for line in lines)]


@contextmanager
def reporting(directory: Path, base_urls: Sequence[str], project: dict[str, Any]) -> Iterator[list[Program]]:
    """Run a program of each SDK against each machine for a block. At its end they flush what they have, and stop."""
    running = []
    for number, base_url in enumerate(base_urls):
        for kind in KINDS:
            name = f"{kind}{number}"
            book = directory / f"{name}.book"
            told = {
                **os.environ,
                "SENTRY_DSN": at_machine(project["sdks"]["sentry_dsn"], base_url),
                "POSTHOG_HOST": base_url,
                "POSTHOG_API_KEY": project["sdks"]["posthog_key"],
                "NO_PROXY": "127.0.0.1",
                "no_proxy": "127.0.0.1",
            }
            with (directory / f"{name}.log").open("ab") as log:
                command = [SDKS / "venv" / "bin" / "python", PROGRAM, kind, book, name]
                process = subprocess.Popen(list(map(str, command)), env=told, stdout=log, stderr=log)
            running.append(Program(kind, book, project["id"], process))
    try:
        yield running
    finally:
        for program in running:
            program.process.terminate()
        for program in running:
            try:
                program.process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                program.process.kill()
                program.process.wait()


def at_machine(dsn: str, base_url: str) -> str:
    """The same DSN at another machine."""
    scheme, _, rest = dsn.partition("://")
    key, _, address = rest.partition("@")
    return f"{scheme}://{key}@{base_url.partition('://')[2]}/{address.partition('/')[2]}"


def found_in_store(url: str, programs: Sequence[Program], journal: Journal) -> list[tuple[float, str, int]]:
    """For each acknowledged write and report: when, its name, and how often the store has it."""
    offset = time.time() - time.monotonic()
    with psycopg.connect(url, autocommit=True) as connection:
        counts = Counter(event.marker for event in read_store(connection, MARKER) if event.marker is not None)
        found = [(op.finished / 1e9 + offset, op.id, counts[op.id]) for op in journal.ops if op.outcome == "ok"]
        # What was not acknowledged may be there once, and never twice.
        found += [
            (op.invoked / 1e9 + offset, f"{op.id} ({op.outcome})", counts[op.id])
            for op in journal.ops
            if op.outcome != "ok" and counts[op.id] > 1
        ]
        for program in programs:
            rows = dict(connection.execute(ROWS[program.kind].encode(), (program.project_id,)).fetchall())
            entries = {user: at for at, user in program.entries()}
            found += [(at, user, rows.get(user, 0)) for user, at in entries.items()]
    return found


def tally(found: Sequence[tuple[float, str, int]], since: float, until: float) -> Tally:
    """Those of a span of time."""
    result = Tally()
    for at, name, times in found:
        if since <= at < until:
            result.acknowledged += 1
            if times == 0:
                result.lost.append(name)
            elif times > 1:
                result.doubled.append(name)
    return result
