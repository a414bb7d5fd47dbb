"""The event store as the rest of the service sees it: commands in, outcomes out, and reads of read models."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast

import msgspec
import psycopg
from psycopg_pool import PoolTimeout

from projections.kernel import Table
from service.eventstore.connect import hosts
from service.eventstore.connect.connection import connect_async
from service.eventstore.connect.facts import NOW_SECONDS, Facts
from service.eventstore.declare.commands import Command, Outcome, OutcomeUnknown
from service.eventstore.read.reader import AsyncConnection, Caller, Reader, Row, reading_for
from service.eventstore.state.cache import (
    DEADLINE,
    DOUBT_DEADLINE,
    KEPT_DOCUMENTS_BYTES,
    SILENCE,
    Entry,
    StateCache,
    tell,
)
from service.eventstore.state.unit import Registry
from service.eventstore.write.lane import FenceLane
from service.eventstore.write.loop import CommandLoop
from service.eventstore.write.round import Round
from service.fairness.bounds import SHARE, FairBounds
from service.fairness.semaphore import FairSemaphore
from service.fairness.turns import CommandNotDone
from service.sql import Statement

R = TypeVar("R", bound=msgspec.Struct)

READ_CONNECTIONS = 6
READS_PER_TENANT = 2
DOOR_CONNECTIONS = 2
QUERY_CONNECTIONS = 2
QUERY_SETTINGS = ("jit = off",)  # to compile a query over many partitions takes longer than to run it
LONG_READS, LONG_WAITING = 2, 4
DOCUMENT_BYTES = 32 * 1024  # of a command's body: beyond it a command is one of the large ones
COMMANDS, FENCES, READS = "commands", "fences", "reads"
# The loop gives commands up itself, in time. This bounds what it cannot see: its own wait for a silent database.
WATCH_SECONDS = 0.25
STANDBY_SECONDS = 5.0  # a read that has to be on a standby waits for one at most
ANSWER_SECONDS = 0.2  # a database that lives answers within them; else whoever waits for a command hears so in time
LONGEST = DEADLINE + DOUBT_DEADLINE + 2.5


class EventStore:
    """One per process. Commands go through its loop (or its fence lane); reads through asynchronous pools.

    What brings a large document takes a loop of its own: to write half a megabyte takes the database a tenth of a
    second, which nobody's small command waits for (P25). The two are to each other as the loops of two processes.
    `doors` is for finding out who asks: short look-ups that no list and no report can hold up. `queries` is for reads
    that go through very many rows; whoever uses it has taken a turn before (G-151).
    """

    def __init__(
        self, conninfo: str, registry: Registry, *, make_round: Callable[[Registry, StateCache], Round] = Round
    ) -> None:
        self.conninfo = conninfo
        self.registry = registry
        self.loop = CommandLoop(conninfo, registry, make_round=make_round)
        self.documents = CommandLoop(
            conninfo,
            registry,
            application="service-documents",
            kept_bytes=KEPT_DOCUMENTS_BYTES,
            make_round=make_round,
        )
        self.lane = FenceLane(conninfo, registry, make_round)
        reads, of_tenant = SHARE.of(READ_CONNECTIONS, least=2), SHARE.of(READS_PER_TENANT)
        self.reads = Reader(conninfo, "service-read", connections=reads, per_tenant=of_tenant)
        self.doors = Reader(conninfo, "service-door", connections=DOOR_CONNECTIONS, per_tenant=1)
        self.queries = Reader(
            conninfo,
            "service-query",
            connections=QUERY_CONNECTIONS,
            per_tenant=1,
            rest=0,
            settings=QUERY_SETTINGS,
        )
        self._long_reads = FairSemaphore(FairBounds(LONG_READS, per_tenant=1), waiting=LONG_WAITING)
        self.facts = Facts(conninfo)
        self.installation_salt = ""
        self._watches = False

    async def start(self) -> None:
        """Open the pools and start the threads. Raises psycopg_pool.PoolTimeout when there is no database."""
        self._watch()
        await asyncio.gather(self.reads.start(), self.doors.start(), self.queries.start())
        await self.facts.start()
        [[self.installation_salt]] = await self.fetch("select salt from installation")
        self.start_writing()

    def start_writing(self) -> None:
        """Start only the loops and the lane: what a synchronous process needs."""
        self._watch()
        self.loop.start()
        self.documents.start()
        self.lane.start()

    async def stop(self) -> None:
        """Answer what is queued and close everything."""
        await asyncio.to_thread(self.stop_writing)
        await self.reads.stop()
        await self.doors.stop()
        await self.queries.stop()
        await self.facts.stop()

    def stop_writing(self) -> None:
        """Stop the loops and the lane."""
        self.loop.stop()
        self.documents.stop()
        self.lane.stop()
        if self._watches:
            self._watches = False
            hosts.unwatch(self.conninfo)

    def _watch(self) -> None:
        """Watch the hosts of a list, once."""
        if not self._watches:
            self._watches = True
            hosts.watch(self.conninfo)

    async def execute(self, command: Command) -> Outcome:
        """Carry out a command.

        Raises the Rejection of its decision, KeyReused (422), KeyInProgress (409), CommandNotDone and
        OutcomeUnknown (503), CommandFailed (400).
        """
        running = asyncio.get_running_loop()
        waiter: asyncio.Future[Outcome] = running.create_future()
        queue = self._queue_of(command)
        entry = queue.submit(command, waiter)
        watch = _Watch(running, queue, entry, self._answers)
        try:
            return await waiter
        finally:
            watch.cancel()
            # A refusal's traceback leads to this frame: what holds the refusal must not be in it, or the command with
            # all that it was made from stays until the collector of cycles comes by.
            del waiter, entry, watch

    async def _answers(self) -> bool:
        """Whether the database answers at this moment, to the service itself."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                with reading_for(Caller("", ANSWER_SECONDS)):
                    await self.doors.fetch("select 1")
        except (TimeoutError, CommandNotDone, PoolTimeout, psycopg.Error):
            return False
        return True

    def execute_sync(self, command: Command) -> Outcome:
        """Carry out a command from a thread without an event loop. Raises as `execute`."""
        waiter: Future[Outcome] = Future()
        self._queue_of(command).submit(command, waiter)
        try:
            return waiter.result(LONGEST)
        except TimeoutError:
            raise OutcomeUnknown from None

    def _queue_of(self, command: Command) -> CommandLoop | FenceLane:
        if command.exclusive:
            return self.lane
        return self.documents if command.weight > DOCUMENT_BYTES else self.loop

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection]:
        """Lend a read-only connection. Raises CommandNotDone while the store is not started, and ReadNotDone."""
        async with self.reads.connection() as connection:
            yield connection

    @asynccontextmanager
    async def long_read(self) -> AsyncIterator[None]:
        """Take the caller's turn for a read in many statements: each tenant has one at a time, all have two.

        Raises ReadNotDone when too many of the tenant wait.
        """
        async with self._long_reads.place(self.reads.tenant):
            yield

    async def fetch(self, query: Statement, /, *places: Any, **named: Any) -> list[Row]:
        """Run a read and return its rows as tuples, its values by place or by name. Raises as Reader.connection."""
        return await self.reads.fetch(query, *places, **named)

    async def fetch_planned(self, query: Statement, /, *places: Any, **named: Any) -> list[Row]:
        """Run a read that is planned for just these values, where the best plan depends on them. Raises as `fetch`."""
        return await self.reads.fetch_planned(query, *places, **named)

    async def get(self, table: Table[R], project_id: str, id: str) -> R | None:
        """Read one row by its key."""
        rows = await self.find(table, "t.project_id = %s and t.id = %s", project_id, id, limit=1)
        return rows[0] if rows else None

    async def find(
        self, table: Table[R], where: str, *params: Any, order_by: str = "", limit: int | None = None
    ) -> list[R]:
        """Read the rows for which `where` (SQL over alias t, parameters as %s) holds."""
        return await self.reads.find(table, where, *params, order_by=order_by, limit=limit)

    @property
    def listed(self) -> bool:
        """Whether its address lists several hosts."""
        return bool(hosts.hosts_of(self.conninfo))

    async def see_replicated(self, query: Statement, **named: Any) -> list[Row]:
        """Run a read, and return its rows once no promotion of a standby can take them back (G-201).

        With a list of hosts, for what leaves the database, such as a line of the ledger of erasures. Raises
        psycopg.Error, and CommandNotDone when no standby has them in time.
        """
        try:
            async with asyncio.timeout(STANDBY_SECONDS):
                async with await connect_async(self.conninfo, application="service-standby") as connection:
                    rows = await (await connection.execute(query, named)).fetchall()
                    await connection.execute(hosts.REPLICATED)
                    return rows
        except TimeoutError:
            raise CommandNotDone from None

    def last_known(self, table: Table[R], project_id: str, id: str) -> R | None:
        """Return a row as this process last committed or loaded it. None for an unknown row.

        Others may have changed it since: good for finding out what a command has to lock, never for an answer.
        """
        known = self.loop.last_known((project_id, id))
        return None if known is None else cast("R | None", known.rows.get(table.name))

    async def locate(self, table: Table[R], project_id: str, id: str) -> R | None:
        """Return a row as last known, or read it."""
        return self.last_known(table, project_id, id) or await self.get(table, project_id, id)

    @property
    def kept_bytes(self) -> int:
        """Memory of the states that are kept, in bytes."""
        return self.loop.kept_bytes + self.documents.kept_bytes

    @property
    def waiting(self) -> Mapping[str, int]:
        """How many COMMANDS, FENCES and READS wait for their turn."""
        return {
            COMMANDS: self.loop.depth + self.documents.depth,
            FENCES: self.lane.depth,
            READS: self.reads.waiting + self.doors.waiting,
        }

    async def now(self) -> int:
        """Return service_now() in epoch seconds."""
        [[seconds]] = await self.fetch(f"select {NOW_SECONDS}")
        return int(seconds)


class _Watch:
    """Tells a caller what became of a command that nothing is heard of, at three moments.

    One timer goes from each to the next: nearly every command has ended before the first.
    """

    __slots__ = ("_answers", "_asking", "_began", "_entry", "_queue", "_running", "_timer")

    def __init__(
        self,
        running: asyncio.AbstractEventLoop,
        queue: CommandLoop | FenceLane,
        entry: Entry,
        answers: Callable[[], Coroutine[Any, Any, bool]],
    ) -> None:
        self._running, self._queue, self._entry, self._answers = running, queue, entry, answers
        self._asking: asyncio.Task[None] | None = None
        self._began = running.time()
        self._timer = running.call_later(min(DEADLINE + WATCH_SECONDS, LONGEST), self._look)

    def cancel(self) -> None:
        """Watch no more."""
        self._timer.cancel()
        if self._asking is not None:
            self._asking.cancel()

    def _look(self) -> None:
        """Tell the caller when it has waited for too long, and look again at the next moment.

        First comes a command that nobody has begun, because its thread waits for a silent database, and one that was
        begun when the database answers nobody: then nothing will be known in the time of a write. Then comes one whose
        server has neither answered nor gone, unless its outcome is pursued; last any.
        """
        entry, waited, silent = self._entry, self._running.time() - self._began, DEADLINE + SILENCE
        if waited >= LONGEST or (waited >= silent and not entry.in_doubt):
            tell(entry.waiter, OutcomeUnknown())
        elif not self._queue.begun(entry):
            tell(entry.waiter, entry.given_up)
        elif not entry.in_doubt and self._asking is None:
            self._asking = self._running.create_task(self._ask())
        if not entry.waiter.done():
            after = LONGEST if waited >= silent else min(silent, LONGEST)
            self._timer = self._running.call_at(self._began + after, self._look)

    async def _ask(self) -> None:
        if not await self._answers():
            tell(self._entry.waiter, OutcomeUnknown())
