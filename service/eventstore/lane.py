"""The fence lane: commands that must be points in the log (pause, revoke, rotate, delete) take their own way.

They do not queue behind the loop, and they *wait* for the exclusive gate: while one waits, every tried shared lock
fails, so nothing new starts and draining cannot starve. A session that still holds the gate after the patience is
over is ended; its batch runs again and meets the fence. Tenants are served in turn (fencequeue.py): nobody's fences
can keep another's waiting for longer than one of them takes.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from concurrent.futures import Future
from contextlib import suppress

import psycopg
import structlog

from service.eventstore import names, statements
from service.eventstore.commands import Command, CommandNotDone, Outcome
from service.eventstore.connection import Connection
from service.eventstore.entry import Entry
from service.eventstore.faults import Meaning, judge
from service.eventstore.fencequeue import FenceQueue
from service.eventstore.loop import Answers
from service.eventstore.round import Round
from service.eventstore.session import WritingSession
from service.eventstore.unit import Registry

log = structlog.get_logger()

THREADS = 2
CAPACITY = 64
PER_TENANT = 16
PAUSE = 0.02  # seconds after a connection was lost
PATIENCE_MS = 1200  # how long the gate is waited for before its holders are ended


class FenceLane:
    """A few threads, a connection each, that carry out one fence command at a time."""

    def __init__(self, conninfo: str, registry: Registry) -> None:
        self._conninfo = conninfo
        self._registry = registry
        self._queue = FenceQueue(capacity=CAPACITY, per_tenant=PER_TENANT)
        self._threads = [
            threading.Thread(target=self._main, name=f"service-fence-{n}", daemon=True) for n in range(THREADS)
        ]

        self.fences = 0
        self.in_doubt = 0
        self.holders_ended = 0

    def start(self) -> None:
        """Start the threads; connections are opened with the first command."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Finish what waits and stop."""
        self._queue.close()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout=3)

    @property
    def depth(self) -> int:
        """Fences waiting."""
        return len(self._queue)

    def submit(self, command: Command, waiter: asyncio.Future[Outcome] | Future[Outcome]) -> Entry:
        """Queue a fence command; returns its entry.

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
        while (entry := self._queue.take()) is not None:
            answers = Answers()
            answers.add(entry, self._carry_out(session, entry))
            answers.send()
            self.fences += 1
            self._queue.done(entry)
        session.close()

    def _carry_out(self, session: WritingSession, entry: Entry) -> Outcome | Exception:
        """Try until the command is answered or its time is over."""
        entry.begun = True  # before the deadline is looked at: whoever finds it false may say that nothing was done
        while not entry.overdue:
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
            case Meaning.OUT_OF_TIME:
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

    def _attempt(self, session: WritingSession, entry: Entry) -> Outcome | Exception | None:
        """Run one round of one command; None when a name was held by someone else, or a stream had to be loaded."""
        connection, round_ = session.open(), Round(self._registry, session.cache)
        result = round_.run(connection, [entry], wait_ms=PATIENCE_MS, exclusive=entry.command.exclusive)
        for _, answer in result.done:
            return answer
        round_.load(connection, result)
        return None


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
