"""The flushes that have to decide something, in a thread of their own: cases that open or move, repeats, new senders.

They follow a command loop's round, which blocks on its connection. When the connection dies while a commit is on its
way, the decider finds out by the number of the flush whether it is stored, and either answers or lets the records wait
for another: each record is stored exactly once.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue

import psycopg
import structlog

from service.eventstore.connect.connection import FULL_DISK, OUTAGE, Connection
from service.eventstore.declare import names
from service.eventstore.declare.commands import OutcomeUnknown
from service.eventstore.declare.faults import Fault, Meaning, judge
from service.eventstore.state.cache import tell
from service.eventstore.state.loading import WritingSession
from service.ingest.flush import statements
from service.ingest.flush.attempt import Attempt
from service.ingest.flush.settlement import Settlement
from service.ingest.flush.transaction import Flush, flusher_name
from service.ingest.queue.items import Item

log = structlog.get_logger()

DOUBT_DEADLINE = 10.0  # seconds a commit in doubt is pursued

_Job = tuple[Callable[[Settlement], None], "asyncio.Future[Settlement]"]


class Decider:
    """Runs flushes one after the other; whoever asks waits for each before the next, so `flush` has one user."""

    def __init__(self, conninfo: str, application: str, flush: Flush) -> None:
        self._session = WritingSession(conninfo, application)
        self._flush = flush
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        # A daemon: a database that does not answer must not keep the process from ending.
        self._thread = threading.Thread(target=self._main, name="service-intake", daemon=True)
        self.in_doubt = 0

    # -- the event loop ----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Let the thread end when it has done what it was asked."""
        self._jobs.put(None)

    async def carry_out(self, items: Sequence[Item]) -> Settlement:
        """Flush a batch; whatever goes wrong, every record is in what comes back."""
        return await self._ask(lambda settlement: self._carry_out(items, settlement))

    async def resolve(self, attempt: Attempt, lost_pid: int) -> Settlement:
        """Settle a flush whose commit was on its way when its session, `lost_pid`, was lost."""
        return await self._ask(lambda settlement: self._resolve(attempt, lost_pid, settlement))

    async def _ask(self, work: Callable[[Settlement], None]) -> Settlement:
        answer: asyncio.Future[Settlement] = asyncio.get_running_loop().create_future()
        self._jobs.put((work, answer))
        return await answer

    # -- the thread --------------------------------------------------------------------------------------------

    def _main(self) -> None:
        while (job := self._jobs.get()) is not None:
            work, answer = job
            settlement = Settlement()
            result: Settlement | Exception = settlement
            try:
                work(settlement)
            except Exception as bug:  # noqa: BLE001 - it belongs to whoever asked; the thread must survive
                self._session.close()
                result = bug
            with suppress(RuntimeError):  # The event loop has closed; nobody waits for it.
                answer.get_loop().call_soon_threadsafe(tell, answer, result)
        self._session.close()

    def _carry_out(self, items: Sequence[Item], settlement: Settlement) -> None:
        """Run one flush; each of its records is in the settlement afterwards."""
        attempt = self._flush.attempt(items)
        try:
            self._flush.run(self._session.open(), attempt)
        except Exception as error:  # noqa: BLE001 - whatever it is, the thread must survive
            self._flush.forget()
            self._after(judge(error, self._session.connection), attempt, settlement)
        else:
            settlement.add(attempt)

    def _after(self, fault: Fault, attempt: Attempt, settlement: Settlement) -> None:
        """Let the records of a flush wait after an error, or find the one at fault."""
        # The check of the default partition: a day got its own between planning and writing. It is seen next time.
        moved = isinstance(fault.error, psycopg.errors.CheckViolation)
        match Meaning.TRY_AGAIN if moved else fault.meaning:
            case Meaning.NOT_CONNECTED:
                settlement.hold(attempt.items)
            case Meaning.IN_DOUBT:
                OUTAGE.began(fault.error, in_doubt=len(attempt.items))
                self.in_doubt += len(attempt.items)
                self._session.close()
                if attempt.committing:
                    self._resolve(attempt, self._session.pid, settlement)
                else:
                    settlement.hold(attempt.items)
            case Meaning.OUT_OF_TIME:
                log.warning("transaction_out_of_time", size=len(attempt.items), sqlstate=fault.sqlstate)
                self._session.close()
                if len(attempt.items) > 1:
                    self._one_by_one(attempt, fault, settlement)
                else:
                    settlement.hold(attempt.items)
            case Meaning.TRY_AGAIN:
                self._session.rollback()
                settlement.hold(attempt.items)
            case Meaning.CALLERS_DATA | Meaning.UNEXPECTED:
                self._session.rollback()
                self._one_by_one(attempt, fault, settlement)
            case Meaning.BUG:
                log.error("flush_failed", error=repr(fault.error), size=len(attempt.items), exc_info=fault.error)
                self._session.close()
                self._one_by_one(attempt, fault, settlement)

    def _resolve(self, attempt: Attempt, lost_pid: int, settlement: Settlement) -> None:
        """Find out whether a commit in doubt was carried out, then answer or let its records wait."""
        give_up = time.monotonic() + DOUBT_DEADLINE
        while time.monotonic() < give_up:
            try:
                received_at = self._when_committed(self._session.open(), attempt.number, lost_pid)
            except psycopg.Error as error:
                if judge(error, self._session.connection).meaning is Meaning.TRY_AGAIN:
                    self._session.rollback()
                else:
                    self._session.close()
                continue
            if received_at is None:
                settlement.hold(attempt.items)
            else:
                attempt.received_at = received_at
                settlement.add(attempt)
            return
        log.error("commit_unresolved", size=len(attempt.stored))
        unknown = {stored.item.key_record for stored in attempt.stored} - {None}
        settlement.answers += [(stored.item, OutcomeUnknown()) for stored in attempt.stored]
        # A twin in the same flush was answered from a record that may not be there.
        settlement.answers += [
            (item, OutcomeUnknown() if item.key_record in unknown else told) for item, told in attempt.settled
        ]
        settlement.hold(attempt.held)

    def _when_committed(self, connection: Connection, number: int, lost_pid: int) -> int | None:
        """Wait for the end of the transaction that lost its connection, then look for its number.

        Returns the time of receipt of its records in epoch seconds; None when it was not carried out. In that case
        the number is given up: if its statement arrives later, it stores nothing (see `ingest_flush`).
        """
        flusher_id = self._flush.flusher_id
        connection.execute(statements.END_SESSION, (lost_pid, self._session.application))
        connection.execute("begin")
        connection.execute(statements.WAIT_NAME, (names.lock_number(flusher_name(flusher_id)),))
        row = connection.execute(statements.LAST_BATCH, (flusher_id,)).fetchone()
        if row is not None and row[0] == number:
            connection.execute("rollback")
            return int(row[1])
        connection.execute(statements.GIVE_UP, (flusher_id, number))
        connection.execute("commit")
        return None

    def _one_by_one(self, attempt: Attempt, fault: Fault, settlement: Settlement) -> None:
        """Store each record alone, so that only the one at fault fails."""
        if len(attempt.items) > 1:
            for item in attempt.items:
                self._carry_out([item], settlement)
            return
        say = log.debug if FULL_DISK.lasts else log.error  # one line tells of that already
        say("record_failed", operation=attempt.items[0].operation, sqlstate=fault.sqlstate)
        settlement.answers.append((attempt.items[0], fault.told))
