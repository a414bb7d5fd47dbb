"""The fence lane: commands that must be points in the log (pause, revoke, rotate, delete) take their own way.

They do not queue behind the loop, and they *wait* for the exclusive gate: while one waits, every tried shared lock
fails, so nothing new starts and draining cannot starve. A session that still holds the gate after the patience is
over is ended; its batch runs again and meets the fence. Tenants are served in turn, one fence of each at a time, and
stops before saves: nobody's fences can keep another's waiting for longer than one of them takes. One over a long
history or a large document, which takes long to load, is set aside until a thread of its own has loaded it: it holds no
thread of the lane meanwhile.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from operator import attrgetter
from typing import NamedTuple

import psycopg
import structlog

from service.eventstore.connect.connection import IDLE_SECONDS, Connection, WatchedConnection
from service.eventstore.declare import names
from service.eventstore.declare.commands import Command, Outcome
from service.eventstore.declare.faults import Meaning, judge
from service.eventstore.read import statements
from service.eventstore.state.cache import Entry, StateCache, StreamName
from service.eventstore.state.loading import WritingSession
from service.eventstore.state.unit import Registry
from service.eventstore.write.loop import Answers
from service.eventstore.write.round import Round
from service.eventstore.write.warming import Found, Wanted, attempt, take_in
from service.fairness.bounds import SHARE, FairBounds
from service.fairness.queue import FairQueue
from service.fairness.turns import CommandNotDone

log = structlog.get_logger()

THREADS = 2
CAPACITY = 64
PER_TENANT = 16
PAUSE = 0.02  # seconds after a connection was lost
PATIENCE_MS = 1200  # how long the gate is waited for before its holders are ended


class _Cold(NamedTuple):
    """A fence that cannot be carried out before these are loaded."""

    entry: Entry
    wanted: Sequence[Wanted]


def fence_queue() -> FairQueue[Entry]:
    """The line before the lane: a tenant holds no more than one thread, and a stop never waits behind a save."""
    return FairQueue(
        attrgetter("tenant"),
        places=FairBounds(SHARE.of(CAPACITY, least=2), per_tenant=SHARE.of(PER_TENANT)),
        last=attrgetter("saves"),
        at_once=1,
    )


class FenceLane:
    """A few threads, a connection each, that carry out one fence command at a time."""

    def __init__(
        self, conninfo: str, registry: Registry, make_round: Callable[[Registry, StateCache], Round] = Round
    ) -> None:
        self._make_round = make_round
        self._conninfo = conninfo
        self._registry = registry
        self._queue = fence_queue()
        self._threads = [
            threading.Thread(target=self._main, name=f"service-fence-{n}", daemon=True) for n in range(THREADS)
        ]
        self._cold: FairQueue[_Cold] = FairQueue(lambda cold: cold.entry.tenant)
        self._loaded: dict[str, list[tuple[StreamName, Found]]] = {}  # by command_id, for whichever thread is next
        self._warming = threading.Thread(target=self._warm, name="service-fence-warm", daemon=True)

        self.fences = 0
        self.in_doubt = 0
        self.holders_ended = 0

    def start(self) -> None:
        """Start the threads. Connections are opened with the first command."""
        for thread in (*self._threads, self._warming):
            thread.start()

    def stop(self) -> None:
        """Finish what waits and stop."""
        self._queue.close()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout=3)
        self._cold.close()
        if self._warming.is_alive():
            self._warming.join(timeout=1)

    @property
    def depth(self) -> int:
        """Fences waiting."""
        return len(self._queue)

    def submit(self, command: Command, waiter: asyncio.Future[Outcome] | Future[Outcome]) -> Entry:
        """Queue a fence command. Returns its entry.

        Raises CommandNotDone when the lane, or its tenant's share, is full or stopping.
        """
        entry = Entry(command, waiter)
        if not self._queue.put(entry):
            raise CommandNotDone
        return entry

    def begun(self, entry: Entry) -> bool:
        """Whether an entry may be under way. One that is not, past its deadline, never will be."""
        return entry.begun

    def _main(self) -> None:
        session = WritingSession(self._conninfo, "service-fence", transaction_timeout_ms=2 * PATIENCE_MS)
        while (entry := self._queue.get(session.rest, IDLE_SECONDS)) is not None:
            answer = self._carry_out(session, entry)
            if isinstance(answer, _Cold):
                self._queue.set_aside()
                self._cold.put(answer)
                continue
            answers = Answers()
            answers.add(entry, answer)
            answers.send()
            self.fences += 1
            self._queue.finish(entry)
        session.close()

    def _warm(self) -> None:
        """Load what fences have to know, outside of any transaction, and have them taken again."""
        session = WritingSession(self._conninfo, "service-fence-warm")
        while (cold := self._cold.get(session.rest, IDLE_SECONDS)) is not None:
            try:
                connection = session.open()
                self._loaded[cold.entry.command_id] = [
                    (stream.name, attempt(connection, self._registry, stream)) for stream, _ in cold.wanted
                ]
            except psycopg.Error as error:  # The next attempt asks again, as long as there is time.
                log.warning("stream_not_loaded", error=type(error).__name__)
                session.close()
                time.sleep(PAUSE)
            self._queue.again(cold.entry)
        session.close()

    def _carry_out(self, session: WritingSession, entry: Entry) -> Outcome | Exception | _Cold:
        """Try until the command is answered, its time is over, or it has to wait for what is heavy."""
        entry.begun = True  # before the deadline is looked at: whoever finds it false may say that nothing was done
        for name, found in self._loaded.pop(entry.command_id, ()):
            take_in(session.cache, name, found)
        while not entry.overdue:
            answer: Outcome | Exception | _Cold | None
            try:
                answer = self._attempt(session, entry)
            except Exception as error:  # noqa: BLE001 - whatever it is, the lane must survive
                answer = self._after(error, session, entry)
            else:
                if answer is None:
                    time.sleep(random.uniform(0.002, 0.01))  # noqa: S311 - jitter
            if answer is not None:
                return answer
        return entry.given_up

    def _after(self, error: Exception, session: WritingSession, entry: Entry) -> Exception | None:
        """Make ready for another attempt after an error; returns what the caller is told if there is to be none."""
        fault = judge(error, session.connection)
        match fault.meaning:
            case Meaning.NOT_CONNECTED:
                return None
            case Meaning.IN_DOUBT:
                entry.in_doubt = True
                self.in_doubt += 1
                session.close()
                time.sleep(PAUSE)
                return None
            case Meaning.OUT_OF_TIME | Meaning.READ_ONLY:
                session.close()
                return None
            case Meaning.TRY_AGAIN:
                session.rollback()
                if isinstance(error, psycopg.errors.LockNotAvailable):
                    with suppress(psycopg.Error):  # The next attempt meets it again.
                        self.holders_ended += _end_gate_holders(session.open(), entry)
                return None
            case Meaning.CALLERS_DATA | Meaning.UNEXPECTED:
                session.rollback()
            case Meaning.BUG:
                log.error("fence_failed", error=repr(error), exc_info=error)
                session.close()
        return fault.told

    def _attempt(self, session: WritingSession, entry: Entry) -> Outcome | Exception | _Cold | None:
        """Run one round of one command; None when a name was held by someone else."""
        connection, round_ = session.open(), self._make_round(self._registry, session.cache)
        result = round_.run(connection, [entry], wait_ms=PATIENCE_MS, exclusive=entry.command.exclusive)
        for _, answer in result.done:
            return answer
        return _Cold(entry, list(result.heavy.values())) if result.heavy else None


def _end_gate_holders(connection: Connection, entry: Entry) -> int:
    """End the sessions that hold the gates this fence waits for; returns how many. What they did runs again."""
    ended = 0
    for scope in sorted(entry.command.exclusive):
        number = names.lock_number(names.gate(scope))
        for (pid,) in connection.execute(statements.GATE_HOLDERS, (number,)).fetchall():
            log.warning("gate_holder_ended", pid=pid)
            connection.execute(statements.TERMINATE, (pid,))
            ended += 1
    return ended


# Deleting rows whose time is over, without holding anybody up.

BATCH = 5_000


async def forget(conninfo: str, over: Iterable[tuple[str, str]], event: str) -> None:
    """Delete rows of tables, given as (table, condition), in batches of a transaction each: no command waits for long.

    `event` names what is logged when there were any. Raises psycopg.Error.
    """
    async with await WatchedConnection.connect(
        conninfo, autocommit=True, application_name="service-forget"
    ) as connection:
        for table, condition in over:
            query = (
                f"delete from {table} where ctid = any(array("  # noqa: S608 - constants only
                f"select ctid from {table} where {condition} limit {BATCH} for update skip locked))"
            )
            total = 0
            while count := (await connection.execute(query)).rowcount:
                total += count
            if total:
                log.info(event, table=table, count=total)
