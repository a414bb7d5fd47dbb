"""The fence lane: commands that must be points in the log (pause, revoke, rotate, delete) take their own way.

They do not queue behind the loop, and they *wait* for the exclusive gate: while one waits, every tried shared lock
fails, so nothing new starts and draining cannot starve. A session that still holds the gate after the patience is
over is ended; its batch runs again and meets the fence.
"""

from __future__ import annotations

import asyncio
import queue
import random
import threading
import time
from concurrent.futures import Future

import psycopg
import structlog

from service.eventstore import names, statements
from service.eventstore.cache import StateCache
from service.eventstore.commands import Command, CommandFailed, CommandNotDone, Outcome
from service.eventstore.connection import Connection, connect, is_lost
from service.eventstore.entry import Entry
from service.eventstore.loop import RETRY, Answers, is_callers_data
from service.eventstore.round import Round
from service.eventstore.unit import Registry
from service.eventstore.writing import CommitNotConfirmed

log = structlog.get_logger()

THREADS = 2
CAPACITY = 64
PATIENCE_MS = 1200  # how long the gate is waited for before its holders are ended


class _Session:
    """One thread's connection, opened when first needed and again after a loss."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._connection: Connection | None = None

    def connected(self) -> Connection:
        """Return the open connection, opening it if need be."""
        if self._connection is None:
            self._connection = connect(
                self._conninfo, transaction_timeout_ms=2 * PATIENCE_MS, application="service-fence"
            )
        return self._connection

    def lost(self, error: psycopg.Error) -> bool:
        """Whether the error took the session with it; forgets it if so."""
        connection = self._connection
        if connection is not None and not is_lost(connection, error):
            return False
        self.close()
        return True

    def rollback(self) -> None:
        """Roll back what is open."""
        self.connected().execute("rollback")

    def close(self) -> None:
        """Close and forget the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class FenceLane:
    """A few threads, a connection each, that carry out one fence command at a time."""

    def __init__(self, conninfo: str, registry: Registry) -> None:
        self._conninfo = conninfo
        self._registry = registry
        self._queue: queue.Queue[Entry | None] = queue.Queue(CAPACITY)
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._main, name=f"service-fence-{n}", daemon=True) for n in range(THREADS)
        ]

    def start(self) -> None:
        """Start the threads; connections are opened with the first command."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Finish what runs and stop."""
        self._stopping.set()
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout=3)

    def submit(self, command: Command, waiter: asyncio.Future[Outcome] | Future[Outcome]) -> None:
        """Queue a fence command. Raises CommandNotDone when the lane is full or stopping."""
        if self._stopping.is_set():
            raise CommandNotDone
        try:
            self._queue.put_nowait(Entry(command, waiter))
        except queue.Full:
            raise CommandNotDone from None

    def _main(self) -> None:
        session = _Session(self._conninfo)
        while (entry := self._queue.get()) is not None:
            try:
                result = self._carry_out(session, entry)
            except Exception as bug:
                # The lane must survive; the caller hears of the bug.
                log.exception("fence_failed", error=repr(bug))
                session.close()
                result = bug
            answers = Answers()
            answers.add(entry, result)
            answers.send()
        session.close()

    def _carry_out(self, session: _Session, entry: Entry) -> Outcome | Exception:
        """Try until the command is answered or its time is over."""
        while not entry.overdue:
            try:
                answer = self._attempt(session.connected(), entry)
            except CommitNotConfirmed:
                continue
            except psycopg.Error as error:
                if session.lost(error):
                    entry.in_doubt = True
                    time.sleep(0.02)
                elif error.sqlstate not in RETRY:
                    session.rollback()
                    return CommandFailed(error.sqlstate or "") if is_callers_data(error) else error
                else:
                    session.rollback()
                    if error.sqlstate == "55P03":
                        _end_gate_holders(session.connected(), entry)
            else:
                if answer is not None:
                    return answer
                time.sleep(random.uniform(0.002, 0.01))  # noqa: S311 - jitter
        return entry.given_up

    def _attempt(self, connection: Connection, entry: Entry) -> Outcome | Exception | None:
        """Run one round of one command; None when a name was held by someone else."""
        # A cache of its own, empty each time: fences are rare, and another process may have written meanwhile.
        round_ = Round(self._registry, StateCache())
        result = round_.run(connection, [entry], wait_ms=PATIENCE_MS, exclusive=entry.command.exclusive)
        for _, answer in result.done:
            return answer
        return None


def _end_gate_holders(connection: Connection, entry: Entry) -> None:
    """End the sessions that hold the gates this fence waits for: their work rolls back and runs again."""
    for scope in sorted(entry.command.exclusive):
        number = names.lock_number(names.gate(scope))
        for (pid,) in connection.execute(statements.GATE_HOLDERS, (number,)).fetchall():
            log.warning("gate_holder_ended", pid=pid)
            connection.execute(statements.TERMINATE, (pid,))
