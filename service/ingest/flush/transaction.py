"""One flush: one transaction that puts a batch of records into their tables, cases and counters.

It follows the order of a command loop's round and shares its pieces: gates and names are tried, heads of cases too
(here nothing waits for them: what is held goes into the next flush), what is read is read in a later statement. What
becomes of each record is then decided (see `deciding`). Events and read models are written like those of a round, then
the telemetry set-wise, and the counters, in sorted order, last: they are the only rows here that another flush may
hold, and it is about to commit.

Most flushes have nothing to decide: what is known of their cases and senders holds, and their keys are new. Those take
one statement, which says in the transaction whether it is so (see `counting`).

A flush is recognised by its number, written in the same transaction. The name of the flusher is locked throughout, so
that whoever asks what became of a number waits until a transaction that lost its client has ended; a number that was
not carried out by then is given up, and never will be.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from service.eventstore.connect.connection import Connection
from service.eventstore.declare import names
from service.eventstore.declare.faults import StreamFault
from service.eventstore.state.cache import StreamName
from service.eventstore.state.loading import fold_streams
from service.eventstore.state.unit import Batch, Registry
from service.eventstore.write.warming import load_into
from service.eventstore.write.writing import write
from service.ids import new_id
from service.ingest.flush import statements
from service.ingest.flush.attempt import Attempt, Stored
from service.ingest.flush.counting import Parameters, parameters
from service.ingest.flush.deciding import FlushWork, take
from service.ingest.flush.locking import Project, lock
from service.ingest.flush.memory import Memory
from service.ingest.flush.newcases import enter_rooms, leave_rooms
from service.ingest.flush.tally import Assigned, Tally
from service.ingest.grouping.releases import find_outdated
from service.ingest.queue.items import Item
from statemachines.cases import case

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
        self._memory = Memory(registry)

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

        Fills in `attempt` as it is once the statement has said that it is so (see `counting`). None when it cannot be
        tried: two records have one key, or a case or a project is not known or has to move.
        """
        projects: dict[str, Project] = {}
        senders = dict.fromkeys([(item.sender.project_id, item.sender.dsn_hash) for item in attempt.items])
        for project_id, dsn_hash in senders:
            project = self._memory.projects.get(project_id)
            if project is None or not project.active or not project.knows(dsn_hash):
                return None
            projects[project_id] = project
        footprint, absent = self._memory.plan(self._name, attempt.items)
        if footprint.writes:
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
            connection.execute("rollback")
            return
        attempt.committing = True
        tally, moment = work.tally, work.batch.moment
        values = (moment, self.flusher_id, attempt.number, tally.key_record_parameter(), *tally.parameters())

        def store(connection: Connection, _: Batch) -> None:
            leave_rooms(connection, work.rooms)
            if (parts := tally.parts_parameter()) is not None:
                connection.execute(statements.PARTS, (moment, parts), prepare=True)
            connection.execute(statements.STORE, values, prepare=True)

        write(connection, work.batch, work.loaded, (), memory.cache, store)


def begin(
    connection: Connection, registry: Registry, memory: Memory, name: str, items: Sequence[Item], new_cases: int
) -> FlushWork | None:
    """Begin the transaction of a flush, with its locks and reads. None while somebody holds `name`, its own.

    `new_cases` is the limit of a project in an hour. Raises psycopg.Error.
    """
    heavy, memory.heavy = memory.heavy, {}
    load_into(connection, registry, memory.cache, heavy.values())
    footprint, absent = memory.plan(name, items)
    project_ids = sorted({item.sender.project_id for item in items})
    loaded, moment, projects = lock(connection, footprint, project_ids)
    memory.learn_projects(project_ids, projects)
    if name not in loaded.names:
        return None
    batch = Batch(registry, moment, {}, loaded.rows)
    closed = {project_id for project_id in project_ids if names.gate(project_id) not in loaded.gates}
    met = {one for one in absent if one in loaded.seen or one in loaded.heads}
    memory.moved.update(met)
    work = FlushWork(footprint, loaded, batch, projects, closed, memory, absent - met)
    _fold(registry, work, absent)
    work.rooms = enter_rooms(connection, work.newcomers(), batch.now, new_cases)
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
