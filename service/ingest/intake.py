"""The intake: records wait in a bounded queue until one flusher thread has stored what has gathered (design §6).

A caller hears of its record only after COMMIT said COMMIT: acknowledged means durable and in its case. A record that
found something held waits for the next flush while the others go on; one whose time is over was certainly not stored
and is told so. When the connection dies while a commit is on its way, the flusher stops, finds out by the number of
the flush whether it is stored, and either answers or runs it again: each record is stored exactly once.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterable, Sequence

import psycopg
import structlog

from service.eventstore import names
from service.eventstore.commands import CommandFailed, CommandNotDone, Outcome, OutcomeUnknown
from service.eventstore.connection import Connection, connect, is_lost
from service.eventstore.loop import CALLERS_DATA, RETRY
from service.eventstore.unit import Registry
from service.eventstore.writing import CommitNotConfirmed
from service.ids import new_id
from service.ingest import statements
from service.ingest.flush import Attempt, Flush, flusher_name
from service.ingest.items import Item
from service.ingest.scrubbing import Scrubber
from service.ingest.waiting import Waiting

log = structlog.get_logger()

BATCH = 256
LINGER = 0.002  # seconds that a flush waits for company while requests come in crowds
RECONNECT_PAUSE = 0.05
DOUBT_DEADLINE = 10.0  # seconds a commit in doubt is pursued
STOP_SECONDS = 4.0
WATCH_SECONDS = 0.25
LONGEST = DOUBT_DEADLINE + 2.5  # seconds past its deadline that a record may be on its way to a silent database

Delivery = tuple[asyncio.Future[Outcome], Outcome | Exception]


class Intake:
    """One per process that serves ingest. `scrubber` holds the names that are hidden before anything is stored."""

    def __init__(
        self,
        conninfo: str,
        registry: Registry,
        *,
        scrubber: Scrubber | None = None,
        batch: int = BATCH,
        waiting: Waiting | None = None,
    ) -> None:
        self.scrubber = scrubber or Scrubber()
        self._conninfo = conninfo
        self._id = new_id("flusher")
        self._flush = Flush(registry, self._id)
        self._batch = batch
        self._waiting = Waiting() if waiting is None else waiting
        self._wake = threading.Condition()
        self._idle = False
        self._stopping = False
        self._connection: Connection | None = None
        self._pid = 0
        self._number = 0
        self._crowd = 0
        self._flying: Sequence[Item] = ()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._main, name="service-intake", daemon=True)
        self._watcher = threading.Thread(target=self._watch, name="service-intake-watch", daemon=True)
        self.flushes = 0
        self.stored = 0
        self.suppressed = 0
        self.repeated = 0

    # -- any thread --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the flusher, and the watcher over what waits for it."""
        self._thread.start()
        self._watcher.start()

    async def stop(self) -> None:
        """Refuse new records, store those that wait, and end."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join, STOP_SECONDS)

    @property
    def depth(self) -> int:
        """Records that wait for their answer."""
        return self._waiting.count

    async def submit(self, item: Item) -> Outcome:
        """Wait until a record is stored; returns its answer.

        Raises CommandNotDone when the queue is full or the time is over (503: not stored), OutcomeUnknown,
        Unauthenticated and ProjectDeletionInProgress when the project says so by now, KeyReused, CommandFailed.
        """
        waiter: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        item.waiter = waiter
        with self._wake:
            if self._stopping or not self._waiting.admit(item):
                raise CommandNotDone
            if self._idle:
                self._idle = False
                self._wake.notify()
        return await waiter

    # -- the flusher -------------------------------------------------------------------------------------------

    def _main(self) -> None:
        while (batch := self._gather()) is not None:
            self._flying = batch
            if batch:
                self._carry_out(batch)
            self._flying = ()
        self._ended.set()
        self._reset()

    def _watch(self) -> None:
        """Give up what is overdue even while the flusher waits for a database that says nothing."""
        while not self._ended.wait(WATCH_SECONDS):
            now = time.monotonic()
            with self._wake:
                overdue = self._waiting.expire()
            self._answer([(item, CommandNotDone()) for item in overdue])
            late = [item for item in self._flying if item.deadline + LONGEST < now]
            _deliver([(item, OutcomeUnknown()) for item in late])  # The flusher lets go of them when it comes back.

    def _gather(self) -> list[Item] | None:
        """Wait for records and take the next batch; None when the flusher is to end."""
        with self._wake:
            due = self._waiting.next_due()
            if due != 0.0 and not (due is None and self._stopping):
                self._idle = True
                self._wake.wait(timeout=due)
                self._idle = False
            if self._crowd > 1 and self._waiting.fresh < self._crowd and not self._stopping:
                # Many came at once last time, so their like is on its way: one flush for all costs less.
                self._wake.wait(timeout=LINGER)
            if self._stopping and not self._waiting.count:
                return None
            batch, overdue = self._waiting.take(self._batch)
        self._crowd = len(batch) // 2
        self._answer([(item, CommandNotDone()) for item in overdue])
        return batch

    def _carry_out(self, batch: Sequence[Item]) -> None:
        """Run one flush and see to each of its records."""
        self._number += 1
        attempt = Attempt(self._number, batch)
        try:
            self._flush.run(self._connected(), attempt)
        except CommitNotConfirmed:
            self._flush.forget()
            self._put_back(batch)
        except psycopg.Error as error:
            self._flush.forget()
            self._after_error(attempt, error)
        except Exception as bug:
            # The thread must survive; the culprit is found one by one.
            log.exception("flush_failed", error=repr(bug), size=len(batch))
            self._flush.forget()
            self._reset()
            self._one_by_one(attempt, bug)
        else:
            self._settle(attempt)

    def _settle(self, attempt: Attempt) -> None:
        """Answer what a flush has decided, after its commit if it had one; keep what was held."""
        self.flushes += 1
        self.stored += len(attempt.stored)
        self.suppressed += sum(stored.suppressed for stored in attempt.stored)
        self.repeated += sum(isinstance(result, Outcome) for _, result in attempt.settled)
        self._answer([*((stored.item, stored.outcome) for stored in attempt.stored), *attempt.settled])
        if attempt.held:
            self._put_back(attempt.held)

    def _answer(self, results: Iterable[tuple[Item, Outcome | Exception]]) -> None:
        """Let go of records and tell their callers."""
        known = list(results)
        with self._wake:
            self._waiting.done(item for item, _ in known)
        _deliver(known)

    def _put_back(self, items: Iterable[Item]) -> None:
        with self._wake:
            self._waiting.put_back(items)

    def _after_error(self, attempt: Attempt, error: psycopg.Error) -> None:
        """Decide what an error of the database means for a flush."""
        connection = self._connection
        if connection is None:  # Could not connect: certainly not stored.
            self._put_back(attempt.items)
        elif is_lost(connection, error):
            log.warning("connection_lost", size=len(attempt.items), sqlstate=error.sqlstate)
            self._reset()
            if attempt.committing:
                self._resolve(attempt)
            else:
                self._put_back(attempt.items)
        elif error.sqlstate in RETRY or isinstance(error, psycopg.errors.CheckViolation):
            # The check of the default partition: a day got its own between planning and writing. It is seen next time.
            self._rollback()
            self._put_back(attempt.items)
        else:
            self._rollback()
            self._one_by_one(attempt, error)

    def _resolve(self, attempt: Attempt) -> None:
        """Find out whether a commit in doubt was carried out, then answer or run it again. Nothing else is flushed."""
        give_up = time.monotonic() + DOUBT_DEADLINE
        lost_pid = self._pid
        while time.monotonic() < give_up:
            try:
                committed = self._was_committed(self._connected(), attempt.number, lost_pid)
            except psycopg.Error as error:
                if error.sqlstate in RETRY:
                    self._rollback()
                else:
                    self._reset()
                continue
            if committed:
                self._settle(attempt)
            else:
                self._put_back(attempt.items)
            return
        log.error("commit_unresolved", size=len(attempt.stored))
        unknown = {stored.item.record for stored in attempt.stored} - {None}
        self._answer([(stored.item, OutcomeUnknown()) for stored in attempt.stored])
        # A twin in the same flush was answered from a record that may not be there.
        self._answer([(item, OutcomeUnknown() if item.record in unknown else told) for item, told in attempt.settled])
        self._put_back(attempt.held)

    def _was_committed(self, connection: Connection, number: int, lost_pid: int) -> bool:
        """Wait for the end of the transaction that lost its connection, then look for its number."""
        connection.execute(statements.END_SESSION, (lost_pid, self._application))
        connection.execute("begin")
        connection.execute(statements.WAIT_NAME, (names.lock_number(flusher_name(self._id)),))
        row = connection.execute(statements.LAST_BATCH, (self._id,)).fetchone()
        connection.execute("rollback")
        return row is not None and row[0] >= number

    def _one_by_one(self, attempt: Attempt, error: Exception) -> None:
        """Store each record alone, so that only the culprit fails."""
        if len(attempt.items) > 1:
            for item in attempt.items:
                self._carry_out([item])
            return
        sqlstate = getattr(error, "sqlstate", None) or ""
        log.error("record_failed", operation=attempt.items[0].operation, sqlstate=sqlstate)
        self._answer([(attempt.items[0], CommandFailed(sqlstate) if sqlstate[:2] in CALLERS_DATA else error)])

    @property
    def _application(self) -> str:
        return f"service-intake-{os.getpid()}"

    def _connected(self) -> Connection:
        if self._connection is None:
            try:
                self._connection = connect(self._conninfo, application=self._application)
            except psycopg.Error:
                time.sleep(RECONNECT_PAUSE)  # Nobody is refused for it: the records wait until their deadline.
                raise
            self._pid = self._connection.info.backend_pid
        return self._connection

    def _rollback(self) -> None:
        try:
            if self._connection is not None:
                self._connection.execute("rollback")
        except psycopg.Error:
            self._reset()

    def _reset(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _deliver(results: Iterable[tuple[Item, Outcome | Exception]]) -> None:
    """Hand results to their callers: one wake-up per event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Delivery]] = {}
    for item, result in results:
        if item.waiter is not None:
            by_loop.setdefault(item.waiter.get_loop(), []).append((item.waiter, result))
    for event_loop, deliveries in by_loop.items():
        try:
            event_loop.call_soon_threadsafe(_set_results, deliveries)
        except RuntimeError:  # The event loop has closed: nobody is left to hear it.
            log.info("callers_gone", count=len(deliveries))


def _set_results(deliveries: Iterable[Delivery]) -> None:
    for waiter, result in deliveries:
        if waiter.done():  # The client went away; the record is stored all the same.
            continue
        if isinstance(result, Exception):
            waiter.set_exception(result)
        else:
            waiter.set_result(result)
