"""One flush: one transaction that puts a batch of records into their tables, cases and counters."""

import asyncio
import select
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

import psycopg
import structlog

from service.eventstore.connect.connection import (
    FULL_DISK,
    IDLE_SECONDS,
    OUTAGE,
    Connection,
    PreparedStatement,
    WatchedConnection,
    connect_async,
)
from service.eventstore.connect.pipeline import array, columns
from service.eventstore.declare import names
from service.eventstore.declare.commands import Outcome, OutcomeUnknown
from service.eventstore.declare.faults import Fault, Meaning, StreamFault, judge
from service.eventstore.state.cache import StreamName, tell
from service.eventstore.state.loading import Footprint, WritingSession, fold_streams
from service.eventstore.state.unit import Batch, Registry
from service.eventstore.write.warming import load_into
from service.eventstore.write.writing import confirm, write
from service.ids import new_id
from service.ingest import locking
from service.ingest.deciding import Attempt, FlushWork, Stored, find_outdated, take
from service.ingest.items import Item
from service.ingest.tally import Assigned, Tally
from statemachines.cases import case

# What became of a batch of records, as one flush or several have settled it.


@dataclass(slots=True)
class Settlement:
    """Who is told what, who waits on because something was held, and what there is to count."""

    answers: list[tuple[Item, Outcome | Exception]] = field(default_factory=list)
    held: list[Item] = field(default_factory=list)
    flushes: int = 0
    stored: int = 0
    suppressed: int = 0
    repeated: int = 0
    adjusted: int = 0
    scrubbed: Counter[str] = field(default_factory=Counter)

    def add(self, attempt: Attempt) -> None:
        """Take over what a flush has decided, after its commit if it had one."""
        self.flushes += 1
        self.stored += len(attempt.stored)
        self.repeated += sum(isinstance(result, Outcome) for _, result in attempt.settled)
        for item, suppressed in attempt.stored:
            self.suppressed += suppressed
            self.adjusted += item.adjustments.changes
            if item.scrubbed:
                self.scrubbed.update(item.scrubbed)
        self.answers += attempt.answers()
        self.held += attempt.held

    def hold(self, items: Iterable[Item]) -> None:
        """Let records wait on: nothing of them is stored."""
        self.held += items


# The whole of a flush that has nothing to decide, in one statement: checked under its locks, stored and committed.
# Most flushes are such. This one belongs to the event loop, which is where the records come from and their answers
# go to: a thread that waits for the database would wait as long again for its turn of the interpreter.

Parameters = tuple[str | int | None, ...]


def parameters(
    flusher: str,
    flusher_name: str,
    number: int,
    footprint: Footprint,
    heads: Iterable[tuple[str, str, int]],
    senders: Iterable[tuple[str, str, str]],
    tally: Tally,
) -> Parameters:
    """Lay out what `ingest_flush` checks (gates, cases and senders as they are known, new keys) and what it stores.

    `heads` are the revisions of cases, 0 for one that must not exist. `senders` are the DSNs that records came by, by
    project and hash, with the account that pays.
    """
    return (
        array(names.lock_number(name) for name in footprint.gates),
        array(names.lock_number(name) for name in footprint.names if name != flusher_name),
        names.lock_number(flusher_name),
        *columns(heads, 3),
        *columns(senders, 3),
        flusher,
        number,
        tally.key_record_parameter(),
        tally.parts_parameter(),
        *tally.parameters(),
    )


class CountingSession:
    """The connection of the event loop, opened when it is needed. One statement at a time."""

    def __init__(self, conninfo: str, application: str) -> None:
        self._conninfo = conninfo
        self._application = application
        self._connection: WatchedConnection | None = None
        self._statement: PreparedStatement | None = None
        self._news = select.poll()
        self.pid = 0  # of the last session

    async def open(self) -> bool:
        """Open the connection if there is none, and replace one that its server has ended while it was idle.

        A statement is then sent to a session that existed a moment ago, so that its outcome is rarely in doubt.
        Returns whether it is a new one to a list of hosts: another host may lack what is remembered. Raises
        psycopg.OperationalError when the database is not there.
        """
        if self._connection is not None and self._news.poll(0):
            await self.reset()
        if self._connection is None:
            self._connection = await connect_async(self._conninfo, application=self._application)
            self._statement = PreparedStatement(self._connection, locking.FLUSH)
            self.pid = self._connection.info.backend_pid
            self._news.register(self._connection.fileno(), select.POLLIN)
            return self._connection.listed
        return False

    async def store(self, values: Parameters) -> int | None:
        """Run the statement, which commits by itself; its answer comes after the commit.

        Returns the time of receipt in epoch seconds, None when nothing was stored. Raises psycopg.Error.
        """
        assert self._statement is not None, "opened first"
        received_at = await self._statement.run(values)
        return None if received_at is None else int(received_at)

    def judge(self, error: Exception) -> Fault:
        """Say what an error of `store` means."""
        return judge(error, self._connection)

    def abort(self) -> None:
        """Close the socket at once, without ending the session, whatever runs on it."""
        if self._connection is not None:
            asyncio.get_running_loop().remove_reader(self._connection.fileno())
            self._connection.pgconn.finish()

    async def reset(self) -> None:
        """Close the connection."""
        connection, self._connection, self._statement = self._connection, None, None
        if connection is not None:
            self._news = select.poll()
            await connection.close()


# One flush: one transaction that puts a batch of records into their tables, cases and counters. It follows the order
# of a command loop's round and shares its pieces: gates and names are tried, heads of cases too (here nothing waits
# for them: what is held goes into the next flush), what is read is read in a later statement. What becomes of each
# record is then decided (see `deciding.py`). Events and read models are written like those of a round, then the
# telemetry set-wise, and the counters, in sorted order, last: they are the only rows here that another flush may
# hold, and it is about to commit. Most flushes have nothing to decide: what is known of their cases and senders
# holds, and their keys are new. Those take one statement, which says in the transaction whether it is so (see
# above). A flush is recognised by its number, written in the same transaction. The name of the flusher is
# locked throughout, so that whoever asks what became of a number waits until a transaction that lost its client has
# ended; a number that was not carried out by then is given up, and never will be.

NOT_YET = 0
"""Time of receipt in an answer that is made before the database has told it; `ingest_store` puts it in."""


def flusher_name(flusher_id: str) -> str:
    """Name that a flusher holds for as long as a transaction of its own is open."""
    return f"flush:{flusher_id}"


class Flush:
    """Works out and runs the flushes of one flusher, one after the other: nothing here is safe to use twice at once."""

    def __init__(self, registry: Registry, new_cases_per_hour: int) -> None:
        self.flusher_id = new_id("flusher")
        self._registry = registry
        self._new_cases_per_hour = new_cases_per_hour
        self._number = 0
        self._name = flusher_name(self.flusher_id)
        self._memory = locking.Memory(registry)

    def forget(self) -> None:
        """Empty the memory, after any error."""
        self._memory.forget()

    def attempt(self, items: Sequence[Item]) -> Attempt:
        """Give a batch its number."""
        self._number += 1
        return Attempt(self._number, items)

    # -- what has nothing to decide ----------------------------------------------------------------------------

    def count(self, attempt: Attempt) -> Parameters | None:
        """Say how to store every record in one statement, if by all that is known nothing has to be decided.

        Fills in `attempt` as it is once the statement has said that it is so. None when it cannot be
        tried: two records have one key, or a case or a project is not known or has to move.
        """
        projects: dict[str, locking.Project] = {}
        senders = dict.fromkeys([(item.sender.project_id, item.sender.dsn_hash) for item in attempt.items])
        for project_id, dsn_hash in senders:
            project = self._memory.projects.get(project_id)
            if project is None or not project.active or not project.knows(dsn_hash):
                return None
            projects[project_id] = project
        footprint, absent = self._memory.plan(self._name, attempt.items)
        if footprint.writes or footprint.rows:
            return None
        cases = {name: known for name in footprint.shared if (known := self._memory.cache.get(name)) is not None}
        tally = Tally()
        for item in attempt.items:
            project_id = item.sender.project_id
            assigned = None
            if item.offered:
                # The oldest grouping that knows it keeps it: of all the others it is looked up that they do not.
                known_as = [offer for offer in item.offered if (project_id, offer.case_id) not in absent]
                case_id, grouping = known_as[0]
                case_id = cases[project_id, case_id].state.merged_into or case_id
                status = cases[project_id, case_id].state.status
                if status is case.Status.MERGED:
                    return None  # What is known of the two is not of one time.
                assigned = Assigned(case_id, grouping, status)
            attempt.stored.append(Stored(item, tally.add(item, assigned, projects[project_id].account_id)))
            if item.key_record is not None and not tally.remember(item, NOT_YET):
                return None
        heads = [*((*name, known.revision) for name, known in cases.items()), *((*name, 0) for name in absent)]
        sent_by = [(project_id, dsn_hash, projects[project_id].account_id) for project_id, dsn_hash in senders]
        return parameters(self.flusher_id, self._name, attempt.number, footprint, heads, sent_by, tally)

    # -- what has ----------------------------------------------------------------------------------------------

    def run(self, connection: Connection, attempt: Attempt) -> None:
        """Carry out a flush and fill in `attempt`.

        Raises psycopg.Error as it comes, with the transaction still open or the connection broken, and
        CommitNotConfirmed.
        """
        memory = self._memory
        work = begin(connection, self._registry, memory, self._name, attempt.items, self._new_cases_per_hour)
        if work is None:
            attempt.held.extend(attempt.items)  # A transaction of ours that lost its connection is not over yet.
            connection.execute("rollback")
            return
        attempt.received_at = work.batch.now
        for item in attempt.items:
            try:
                take(item, work, attempt)
            except StreamFault as refusal:
                attempt.settled.append((item, refusal))
        if not attempt.stored:
            confirm(connection)  # repeats are answered from records
            return
        attempt.committing = True
        tally, moment = work.tally, work.batch.moment
        values = (moment, self.flusher_id, attempt.number, tally.key_record_parameter(), *tally.parameters())

        def store(connection: Connection, _: Batch) -> None:
            locking.leave_rooms(connection, work.rooms)
            if (parts := tally.parts_parameter()) is not None:
                connection.execute(locking.PARTS, (moment, parts), prepare=True)
            connection.execute(locking.STORE, values, prepare=True)

        write(connection, work.batch, work.loaded, (), memory.cache, store)


def begin(
    connection: Connection, registry: Registry, memory: locking.Memory, name: str, items: Sequence[Item], new_cases: int
) -> FlushWork | None:
    """Begin the transaction of a flush, with its locks and reads. None while somebody holds `name`, its own.

    `new_cases` is the limit of a project in an hour. Raises psycopg.Error.
    """
    heavy, memory.heavy = memory.heavy, {}
    load_into(connection, registry, memory.cache, heavy.values())
    footprint, absent = memory.plan(name, items)
    project_ids = sorted({item.sender.project_id for item in items})
    loaded, moment, projects = locking.lock(connection, footprint, project_ids)
    memory.learn_projects(project_ids, projects)
    if name not in loaded.names:
        return None
    batch = Batch(registry, moment, {}, loaded.rows)
    closed = {project_id for project_id in project_ids if names.gate(project_id) not in loaded.gates}
    met = {one for one in absent if one in loaded.seen or one in loaded.heads}
    memory.moved.update(met)
    work = FlushWork(footprint, loaded, batch, projects, closed, memory, absent - met)
    _fold(registry, work, absent)
    work.rooms = locking.enter_rooms(connection, work.newcomers(), batch.now, new_cases)
    memory.forget_hours_before(work.rooms)
    work.outdated = find_outdated(connection, work.questions(items))
    return work


def _fold(registry: Registry, work: FlushWork, absent: AbstractSet[StreamName]) -> None:
    """Bring every stream that may change to its head; one that is held, or heavy, stays out of the batch.

    A counted case is as the cache has it when its head says so; one that another process has moved is held here,
    and locked to be written in the next flush. So is one that was taken to be absent, and is not.
    """
    loaded, batch, memory = work.loaded, work.batch, work.memory
    memory.heavy = {name: work.footprint.streams[name] for name in loaded.heavy - memory.cache.faults.keys()}
    wanted = ((name, stream) for name, stream in work.footprint.streams.items() if name not in absent)
    locked = (stream for name, stream in wanted if _is_locked(name, work))
    batch.streams, batch.faults = fold_streams(registry, memory.cache, locked, loaded)
    memory.moved.difference_update(batch.streams)
    for name in work.footprint.shared:
        if name in loaded.heads and name not in batch.streams:
            known = memory.cache.get(name)
            if known is not None and known.revision == loaded.heads[name].revision:
                work.counted[name] = known.state
            else:
                memory.moved.add(name)


def _is_locked(name: StreamName, work: FlushWork) -> bool:
    """Whether a stream that may change is ours: by its head, or by its name while it does not exist."""
    loaded = work.loaded
    absent = name not in loaded.seen and name in work.footprint.writes and names.new_stream(*name) in loaded.names
    return absent or (name in loaded.heads and name not in work.memory.heavy)


# The flushes that have to decide something, in a thread of their own: cases that open or move, repeats, new senders.
# They follow a command loop's round, which blocks on its connection. When the connection dies while a commit is on
# its way, the decider finds out by the number of the flush whether it is stored, and either answers or lets the
# records wait for another: each record is stored exactly once.

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
        while (job := self._next()) is not None:
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

    def _next(self) -> _Job | None:
        """Wait for the next job, without a connection when none comes for long."""
        try:
            return self._jobs.get(timeout=IDLE_SECONDS)
        except Empty:
            self._session.rest()
            return self._jobs.get()

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
            case Meaning.READ_ONLY:
                self._session.close()
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
        connection.execute(locking.END_SESSION, (lost_pid, self._session.application))
        connection.execute("begin")
        connection.execute(locking.WAIT_NAME, (names.lock_number(flusher_name(flusher_id)),))
        row = connection.execute(locking.LAST_BATCH, (flusher_id,)).fetchone()
        if row is not None and row[0] == number:
            confirm(connection)
            return int(row[1])
        connection.execute(locking.GIVE_UP, (flusher_id, number))
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
