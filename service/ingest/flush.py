"""One flush: one transaction that puts a batch of records into their tables, cases and counters.

It follows the order of a command loop's round and shares its pieces: gates and names are tried, heads of cases too
(here nothing waits for them: what is held goes into the next flush), what is read is read in a later statement. A
case that stays as it is, is only counted, under a shared lock on its head; one that opens or regresses gets a unit of
its own, together with the rules of its project. Events and read models are written like those of a round, then the
telemetry set-wise, and the counters, in sorted order, last: they are the only rows here that another flush may hold,
and it is about to commit.

An error whose case was merged into another is taken in by that one (G-145): both heads are locked, and where it goes is
as their states say under these locks. What is not locked yet because it was not known is remembered for the next flush.

Most flushes only count; those take one statement, which says in the transaction whether it is so (see `counting`).

A flush is recognised by its number, written in the same transaction. The name of the flusher is locked throughout, so
that whoever asks what became of a number waits until a transaction that lost its client has ended; a number that was
not carried out by then is given up, and never will be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from service.auth.refusals import Unauthenticated
from service.eventstore import names
from service.eventstore.cache import StateCache, StreamName
from service.eventstore.commands import Answer, Command, KeyReused, Origin, Outcome
from service.eventstore.connection import Connection
from service.eventstore.faults import StreamFault
from service.eventstore.idempotency import Record, replay
from service.eventstore.loading import Footprint, Loaded, fold_streams
from service.eventstore.unit import Batch, Registry, UnitOfWork
from service.eventstore.warming import load_into
from service.eventstore.writing import write
from service.ids import new_id
from service.ingest import statements
from service.ingest.counting import Parameters, parameters
from service.ingest.grouping import Evidence, Grouping
from service.ingest.items import Assignment, Item, LogRow
from service.ingest.locking import Project, lock
from service.ingest.newcases import Room, enter_rooms, leave_rooms
from service.ingest.releases import Question, find_outdated
from service.ingest.tally import Assigned, KeyRecordTally, Tally
from statemachines.cases import case, suppressions
from statemachines.kernel.machine import Stream
from statemachines.projects.project import ProjectDeletionInProgress

ACCEPTED = 202
MOST_PROJECTS = 10_000  # remembered; with more, all are forgotten and read again
MOST_ROUTES = 10_000  # of merged cases, likewise
OVERFLOW = Evidence(
    None,
    None,
    "More kinds of errors were new in this hour than get cases of their own\n\n"
    "This case counts the others. Each of them gets its own case when it comes again in an hour with room.",
)
"""What an overflow case is called, and says, in the place of a first error."""
_NO_HEADERS: Mapping[str, str] = {}


class Stored(NamedTuple):
    """A record that the transaction stores, and whether a rule keeps it out of attention."""

    item: Item
    suppressed: bool


@dataclass(slots=True)
class Attempt:
    """A flush and what becomes of its records: stored (once it is committed), settled without it, or held.

    From `committing` on, what is stored may be committed. `received_at` is its time of receipt in epoch seconds, known
    once the database has told it.
    """

    number: int
    items: Sequence[Item]
    received_at: int = 0
    stored: list[Stored] = field(default_factory=list)
    settled: list[tuple[Item, Outcome | Exception]] = field(default_factory=list)
    held: list[Item] = field(default_factory=list)
    committing: bool = False

    def answers(self) -> Iterable[tuple[Item, Outcome | Exception]]:
        """What the callers are told once the flush is committed; those of held records are told later."""
        for item, _ in self.stored:
            yield item, Outcome(ACCEPTED, item.answer(self.received_at), _NO_HEADERS)
        yield from self.settled


@dataclass(slots=True)
class _Work:
    """What the steps of one flush share.

    `closed` are the projects whose gate was not got; `counted` the cases that stay as they are, with their states;
    `outdated` says which releases had been replaced when their cases were resolved.
    """

    footprint: Footprint
    loaded: Loaded
    batch: Batch
    projects: Mapping[str, Project]
    closed: AbstractSet[str]
    counted: dict[StreamName, case.Case] = field(default_factory=dict)
    rooms: Mapping[str, Room] = field(default_factory=dict)
    outdated: AbstractSet[Question] = frozenset()
    tally: Tally = field(default_factory=Tally)


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
        self._cache = StateCache()
        self._projects: dict[str, Project] = {}  # as they stood last: checked before they are used
        self._moved: set[StreamName] = set()  # cases that were only counted but have to change: locked to write next
        self._heavy: dict[StreamName, Stream] = {}  # loaded before the next flush: too much for one
        self._full: dict[str, int] = {}  # projects without room for new cases, and the hour in which that was so
        self._routes: dict[StreamName, str] = {}  # where merged cases lead, as far as a flush has lacked it

    def forget(self) -> None:
        """Empty the cache, after any error."""
        self._cache.clear()
        self._projects.clear()
        self._moved.clear()
        self._heavy = {}
        self._full.clear()
        self._routes.clear()

    def attempt(self, items: Sequence[Item]) -> Attempt:
        """Give a batch its number."""
        self._number += 1
        return Attempt(self._number, items)

    def run(self, connection: Connection, attempt: Attempt) -> None:
        """Carry out a flush and fill in `attempt`.

        Raises psycopg.Error as it comes, with the transaction still open or the connection broken, and
        CommitNotConfirmed.
        """
        heavy, self._heavy = self._heavy, {}
        load_into(connection, self._registry, self._cache, heavy.values())
        footprint = self._footprint(attempt.items)
        project_ids = sorted({item.sender.project_id for item in attempt.items})
        loaded, moment, projects = lock(connection, footprint, project_ids)
        self._remember(project_ids, projects)
        if flusher_name(self.flusher_id) not in loaded.names:
            attempt.held.extend(attempt.items)  # A transaction of ours that lost its connection is not over yet.
            connection.execute("rollback")
            return
        batch = Batch(self._registry, moment, {}, loaded.rows)
        attempt.received_at = batch.now
        closed = {project_id for project_id in project_ids if names.gate(project_id) not in loaded.gates}
        work = _Work(footprint, loaded, batch, projects, closed)
        self._fold(work)
        work.rooms = enter_rooms(connection, _newcomers(work), batch.now, self._new_cases_per_hour)
        self._forget_hours_before(work.rooms)
        work.outdated = find_outdated(connection, _questions(attempt.items, work))
        for item in attempt.items:
            try:
                self._take(item, work, attempt)
            except StreamFault as refusal:
                attempt.settled.append((item, refusal))
        if not attempt.stored:
            connection.execute("rollback")
            return
        attempt.committing = True
        records = work.tally.key_record_parameter()
        values = (moment, self.flusher_id, attempt.number, records, *work.tally.parameters())

        def store(connection: Connection, _: Batch) -> None:
            leave_rooms(connection, work.rooms)
            connection.execute(statements.STORE, values, prepare=True)

        write(connection, batch, loaded, (), self._cache, store)

    def _forget_hours_before(self, rooms: Mapping[str, Room]) -> None:
        for project_id, room in rooms.items():
            if self._full.get(project_id, room.hour) != room.hour:
                del self._full[project_id]

    # -- what is only counted ----------------------------------------------------------------------------------

    def _remember(self, project_ids: Iterable[str], found: Mapping[str, Project]) -> None:
        if len(self._projects) > MOST_PROJECTS:
            self._projects.clear()
        for project_id in project_ids:
            self._projects.pop(project_id, None)
        self._projects.update(found)

    def count(self, attempt: Attempt) -> Parameters | None:
        """Say how to store every record in one statement, if by all that is known nothing has to be decided.

        Fills in `attempt` as it is once the statement has said that it is so (see `counting`). None when it cannot be
        tried: a record has a key, or a case or a project is not known or has to move.
        """
        projects: dict[str, Project] = {}
        for item in attempt.items:
            project = self._projects.get(item.sender.project_id)
            if project is None or not project.active or project.dsn_hash != item.sender.dsn_hash or item.key_record:
                return None
            projects[item.sender.project_id] = project
        footprint = self._footprint(attempt.items)
        if footprint.writes:
            return None
        cases = {name: known for name in footprint.shared if (known := self._cache.get(name)) is not None}
        tally = Tally()
        for item in attempt.items:
            project_id = item.sender.project_id
            assigned = None
            if item.offered:
                case_id, grouping = item.offered[0]  # The oldest grouping that knows it keeps it: all are known here.
                case_id = cases[project_id, case_id].state.merged_into or case_id
                status = cases[project_id, case_id].state.status
                if status is case.Status.MERGED:
                    return None  # What is known of the two is not of one time.
                assigned = Assigned(case_id, grouping, status)
            attempt.stored.append(Stored(item, tally.add(item, assigned, projects[project_id].account_id)))
        return parameters(self.flusher_id, attempt.number, footprint, cases, projects, tally)

    # -- what is needed ----------------------------------------------------------------------------------------

    def _footprint(self, items: Sequence[Item]) -> Footprint:
        writes: dict[StreamName, Stream] = {}
        counted: dict[StreamName, Stream] = {}
        for item in items:
            project_id = item.sender.project_id
            for name in self._names_of(item):
                if name in counted or name in writes:
                    continue
                known = self._cache.get(name)
                stays = known is not None and name not in self._moved and not case.moves_on_error(known.state)
                (counted if stays else writes)[name] = case.stream(*name)
        reads = []
        for project_id in {project_id for project_id, _ in writes}:
            if project_id in self._full:
                overflow = _overflow(project_id, self._full[project_id])
                stays = self._cache.get(overflow.name) is not None and overflow.name not in self._moved
                (counted if stays else writes)[overflow.name] = overflow
            rules = _rules(project_id)
            if self._cache.get(rules.name):
                reads.append(rules)
            else:
                writes[rules.name] = rules
        keyed = [(item.key_record, item.key_name) for item in items if item.key_record is not None]
        return Footprint(
            self._registry,
            self._cache,
            gates={item.sender.project_id for item in items},
            writes=writes.values(),
            reads=reads,
            names_wanted=[flusher_name(self.flusher_id), *(name for _, name in keyed)],
            records=sorted({record for record, _ in keyed}),
            counted=counted.values(),
        )

    def _names_of(self, item: Item) -> Iterable[StreamName]:
        """The cases that may take an error in: those on offer, and those that they are known to lead to."""
        for offered in item.offered:
            name = (item.sender.project_id, offered.case_id)
            yield name
            known = self._cache.get(name)
            for target in (self._routes.get(name), None if known is None else known.state.merged_into):
                if target is not None:
                    yield item.sender.project_id, target

    def _fold(self, work: _Work) -> None:
        """Bring every stream that may change to its head; one that is held, or heavy, stays out of the batch.

        A counted case is as the cache has it when its head says so; one that another process has moved is held here,
        and locked to be written in the next flush.
        """
        loaded, batch = work.loaded, work.batch
        self._heavy = {name: work.footprint.streams[name] for name in loaded.heavy - self._cache.faults.keys()}
        locked = (stream for name, stream in work.footprint.streams.items() if self._is_locked(name, work))
        batch.streams, batch.faults = fold_streams(self._registry, self._cache, locked, loaded)
        self._moved.difference_update(batch.streams)
        for name in work.footprint.shared:
            if name in loaded.heads and name not in work.batch.streams:
                known = self._cache.get(name)
                if known is not None and known.revision == loaded.heads[name].revision:
                    work.counted[name] = known.state
                else:
                    self._moved.add(name)

    def _is_locked(self, name: StreamName, work: _Work) -> bool:
        """Whether a stream that may change is ours: by its head, or by its name while it does not exist."""
        loaded = work.loaded
        absent = name not in loaded.seen and name in work.footprint.writes and names.new_stream(*name) in loaded.names
        return absent or (name in loaded.heads and name not in self._heavy)

    # -- one record --------------------------------------------------------------------------------------------

    def _take(self, item: Item, work: _Work, attempt: Attempt) -> None:
        """Decide what becomes of a record: refused, answered from the record of its key, held, or stored.

        Raises StreamFault when its case cannot be read here.
        """
        sender = item.sender
        if sender.project_id in work.closed:
            attempt.held.append(item)
            return
        project = work.projects.get(sender.project_id)
        if project is None or project.dsn_hash != sender.dsn_hash:
            attempt.settled.append((item, Unauthenticated()))
            return
        if not project.active:
            attempt.settled.append((item, ProjectDeletionInProgress("The project is being deleted.")))
            return
        if item.key_record is not None:
            if item.key_name not in work.loaded.names:
                attempt.held.append(item)
                return
            record = work.loaded.records.get(item.key_record)
            if record is not None:
                attempt.settled.append((item, _repeat(record, sender.request_hash)))
                return
        try:
            assigned = self._assign(item, work) if item.offered else None
        except StreamFault as fault:
            attempt.settled.append((item, fault))
        else:
            if assigned is None and item.offered:
                attempt.held.append(item)
            else:
                attempt.stored.append(self._store(item, assigned, project.account_id, work))

    def _assign(self, item: Item, work: _Work) -> Assigned | None:
        """Find the case of an error, opening or reopening it if need be; None while something it needs is held.

        Raises StreamFault when that is the case, or what it needs to move: whether it is open is not known.
        """
        project_id = item.sender.project_id
        chosen = self._choose(item, work)
        name = None if chosen is None else self._follow((project_id, chosen.case_id), work)
        if chosen is None or name is None:
            return None
        known = work.counted.get(name)
        if known is not None:
            return Assigned(name[1], chosen.grouping, known.status)
        working = work.batch.streams.get(name)
        if working is None:
            return None
        if not working.revision and not work.rooms[project_id].left:
            return self._assign_to_overflow(item, chosen.grouping, work)
        if case.moves_on_error(working.state) and not self._move(item, name, chosen.grouping, work):
            return None
        return Assigned(name[1], chosen.grouping, work.batch.streams[name].state.status, item.evidence)

    def _choose(self, item: Item, work: _Work) -> Assignment | None:
        """Find the grouping that an error keeps; None while a case that says so is held.

        An old grouping that knows the error keeps it; only what none knows opens a case, under the newest.
        """
        chosen = item.offered[-1]
        if len(item.offered) > 1:
            for offered in reversed(item.offered):
                name = (item.sender.project_id, offered.case_id)
                if name in work.counted or name in work.batch.faults:
                    chosen = offered
                elif name not in work.batch.streams:
                    return None
                elif work.batch.streams[name].revision:
                    chosen = offered
        return chosen

    def _follow(self, name: StreamName, work: _Work) -> StreamName | None:
        """Where the errors of a case go: into itself, or into the one that it was merged into.

        None while that is not in the flush. Raises StreamFault when either cannot be read.
        """
        _readable(work.batch, name)
        state = _state_of(name, work)
        if state is None or state.merged_into is None:
            return name
        target = (name[0], state.merged_into)
        _readable(work.batch, target)
        if _state_of(target, work) is not None:
            return target
        if len(self._routes) > MOST_ROUTES:
            self._routes.clear()
        self._routes[name] = state.merged_into
        return None

    def _move(self, item: Item, name: StreamName, grouping: Grouping, work: _Work) -> bool:
        """Run the unit of a case that may open or regress; False while the rules of its project are held."""
        project_id = item.sender.project_id
        stream, rules = case.stream(*name), _rules(project_id)
        _readable(work.batch, rules.name)
        if rules.name not in work.batch.streams:
            return False
        unit = _unit(item, [stream], [rules], work)
        fingerprint, state = grouping.fingerprint, unit.state(stream)
        if state.status is case.Status.ABSENT:
            work.rooms[project_id].opened += 1
        rule = suppressions.settling_rule(unit.state(rules).rules, fingerprint)
        outdated = _question(item, state) in work.outdated
        events = case.decide_error(state, fingerprint, grouping.version, rule, unit.now, outdated=outdated)
        unit.append(stream, events)
        unit.accept()
        return True

    def _assign_to_overflow(self, item: Item, grouping: Grouping, work: _Work) -> Assigned | None:
        """Count an error that is too new into the overflow case of the hour (G-136); None until that is locked."""
        project_id = item.sender.project_id
        hour = work.rooms[project_id].hour
        stream = _overflow(project_id, hour)
        _readable(work.batch, stream.name)
        known = work.counted.get(stream.name)
        if known is not None:
            return Assigned(stream.id, grouping, known.status)
        working = work.batch.streams.get(stream.name)
        if working is None:
            if len(self._full) > MOST_PROJECTS:
                self._full.clear()
            self._full[project_id] = hour
            return None
        if not working.revision:
            unit = _unit(item, [stream], [], work)
            unit.append(stream, case.decide_overflow(unit.state(stream), hour, unit.now))
            unit.accept()
        status = work.batch.streams[stream.name].state.status
        return Assigned(stream.id, grouping, status, OVERFLOW)

    def _store(self, item: Item, assigned: Assigned | None, account_id: str, work: _Work) -> Stored:
        """Put a record into the tally, and its answer with it if the record of its key has to hold that."""
        suppressed = work.tally.add(item, assigned, account_id)
        if item.key_record is not None:
            request_hash, body = item.sender.request_hash, item.answer(work.batch.now)
            made = KeyRecordTally(*item.key_record, request_hash, item.row.id, ACCEPTED, body.decode())
            work.tally.key_records.append(made)
            work.loaded.records[item.key_record] = Record(request_hash, item.row.id, ACCEPTED, body, _NO_HEADERS)
        return Stored(item, suppressed)


def _readable(batch: Batch, name: StreamName) -> None:
    """Raise the fault of a stream that cannot be read."""
    if name in batch.faults:
        raise batch.faults[name]


def _state_of(name: StreamName, work: _Work) -> case.Case | None:
    """How a case stands in the flush; None when it is not in it."""
    known = work.counted.get(name)
    if known is not None:
        return known
    working = work.batch.streams.get(name)
    return None if working is None else working.state


def _question(item: Item, state: case.Case) -> Question | None:
    """What has to be known of an error's release when its case is resolved; None when there is nothing to ask."""
    row = item.row
    if not isinstance(row, LogRow) or row.release is None or state.resolved_at is None:
        return None
    return Question(row.project_id, row.environment, row.release, state.resolved_at)


def _questions(items: Iterable[Item], work: _Work) -> Iterator[Question]:
    """What has to be known of releases: of each error, for each resolved case that may take it in."""
    for item in items:
        for offered in item.offered:
            state = _state_of((item.sender.project_id, offered.case_id), work)
            if state is not None and state.merged_into is not None:
                state = _state_of((item.sender.project_id, state.merged_into), work)
            question = None if state is None else _question(item, state)
            if question is not None:
                yield question


def _newcomers(work: _Work) -> set[str]:
    """Projects of which an error may open a case: they have a stream in the batch that does not exist yet."""
    return {
        project_id
        for (project_id, _), working in work.batch.streams.items()
        if working.stream.machine is case.MACHINE and not working.revision
    }


def _unit(item: Item, streams: Sequence[Stream], reads: Sequence[Stream], work: _Work) -> UnitOfWork:
    """Begin the unit of work that a record causes."""
    project_id = item.sender.project_id
    origin = Origin("dsn", project_id, item.operation, item.sender.request_id)
    return UnitOfWork(work.batch, Command(origin=origin, decide=_decided, streams=streams, reads=reads), item.row.id)


def _overflow(project_id: str, hour: int) -> Stream:
    return case.stream(project_id, case.case_id(project_id, case.overflow_fingerprint(hour)))


def _rules(project_id: str) -> Stream:
    return suppressions.stream(project_id)


def _decided(_unit: Any) -> Answer:
    """Stand in for the decision of a command: a flush decides by itself and answers its records one by one."""
    return Answer(ACCEPTED, None)


def _repeat(record: Record, request_hash: str) -> Outcome | Exception:
    try:
        found = replay(record, request_hash)
    except KeyReused as refusal:
        return refusal
    assert found is not None, "the answer of a telemetry record is final"
    return found
