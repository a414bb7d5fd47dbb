"""What becomes of each record of a flush that holds its locks: refused, repeated, held, or stored and in its case."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from service.auth.refusals import Unauthenticated
from service.eventstore.connect.connection import Connection
from service.eventstore.connect.pipeline import columns
from service.eventstore.declare import names
from service.eventstore.declare.commands import Answer, Command, IdempotencyRecord, KeyReused, Outcome, replay
from service.eventstore.declare.faults import StreamFault
from service.eventstore.state.cache import StreamName
from service.eventstore.state.loading import Footprint, Loaded
from service.eventstore.state.unit import Batch, UnitOfWork
from service.ingest.grouping.fingerprint import Grouping, GroupingEvidence
from service.ingest.items import STORED, Assignment, Item, LogRow, Sender
from service.ingest.locking import CaseRoom, Memory, Project, overflow_of, rules_of
from service.ingest.outcomes import SdkClock, occurred_at
from service.ingest.tally import Assigned, Tally
from service.sql import load_query
from statemachines.cases import case
from statemachines.cases import suppression as suppressions
from statemachines.deploys import is_older, parts
from statemachines.kernel.machine import Rejection, Stream
from statemachines.projects.project import ProjectDeletionInProgress

# A flush and what becomes of its records.

NO_HEADERS: Mapping[str, str] = {}
TAKEN = Outcome(STORED, b"", NO_HEADERS)
"""What is told of a part of an export: nobody reads answers to it."""
REPEATED = Outcome(STORED, b"", NO_HEADERS, replayed=True)


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
            if item.part is None:
                yield item, Outcome(STORED, item.answer(self.received_at), NO_HEADERS)
            else:
                yield item, TAKEN
        yield from self.settled


# Which errors say nothing about a resolved case: those of a release older than its repair (G-144, G-199). The
# repairing release is the one that was current in the error's environment when the case was resolved. A release is
# older when it was last deployed there before that one, or when its version says so: a hotfix of an older line
# reopens nothing. Deploys are read beside the locks: one that is recorded at the same moment may be seen or not, as
# if the error had come before or after it.

_REPAIRED_BY = load_query("ingest/flushing", "repaired_by")


class ReleaseQuestion(NamedTuple):
    """Whether a release was older than the one that was current in an environment at a time (epoch seconds)."""

    project_id: str
    environment: str
    release: str
    resolved_at: int


def find_outdated(connection: Connection, questions: Iterable[ReleaseQuestion]) -> frozenset[ReleaseQuestion]:
    """Answer with those of the questions to which it is yes. Raises psycopg.Error."""
    asked = sorted(set(questions))
    if not asked:
        return frozenset()
    places = columns(((*question, *parts(question.release)) for question in asked), 6)
    rows = connection.execute(_REPAIRED_BY, places, prepare=True).fetchall()
    return frozenset(
        ReleaseQuestion(*question)
        for *question, repaired_by, replaced in rows
        if replaced or is_older(question[2], repaired_by)
    )


# What becomes of each record of a flush that holds its locks: refused, repeated, held, or stored and in its case. A
# case that stays as it is, is only counted; one that opens or regresses gets a unit of its own, together with the
# rules of its project. An error whose case was merged into another is taken in by that one (G-145): both heads are
# locked, and where it goes is as their states say under these locks. What is not locked yet because it was not known
# is remembered for the next flush.

OVERFLOW = GroupingEvidence(
    None,
    None,
    (
        "The project reached its limit of new cases in this hour\n\nThis case counts the errors beyond "
        "the limit, and those of pages beyond the half of it that the public DSN may use. Each kind gets its own case "
        "when it returns in an hour with room."
    ),
)
"""What an overflow case is called, and says, in the place of a first error."""


@dataclass(slots=True)
class FlushWork:
    """What the steps of one flush share.

    `closed` are the projects whose gate was not got; `absent` are older cases that were looked up and do not exist;
    `counted` the cases that stay as they are, with their states; `outdated` says which releases had been replaced when
    their cases were resolved.
    """

    footprint: Footprint
    loaded: Loaded
    batch: Batch
    projects: Mapping[str, Project]
    closed: AbstractSet[str]
    memory: Memory
    absent: AbstractSet[StreamName] = frozenset()
    counted: dict[StreamName, case.Case] = field(default_factory=dict)
    rooms: Mapping[str, CaseRoom] = field(default_factory=dict)
    outdated: AbstractSet[ReleaseQuestion] = frozenset()
    tally: Tally = field(default_factory=Tally)

    def state_of(self, name: StreamName) -> case.Case | None:
        """How a case stands in the flush; None when it is not in it."""
        known = self.counted.get(name)
        if known is not None:
            return known
        working = self.batch.streams.get(name)
        return None if working is None else working.state

    def newcomers(self) -> set[str]:
        """Projects of which an error may open a case: they have a stream in the batch that does not exist yet."""
        return {
            project_id
            for (project_id, _), working in self.batch.streams.items()
            if working.stream.machine is case.MACHINE and not working.revision
        }

    def questions(self, items: Sequence[Item]) -> Iterator[ReleaseQuestion]:
        """What has to be known of releases: of each error, for each resolved case that may take it in."""
        for item in items:
            for offered in item.offered:
                state = self.state_of((item.sender.project_id, offered.case_id))
                if state is not None and state.merged_into is not None:
                    state = self.state_of((item.sender.project_id, state.merged_into))
                question = None if state is None else _question(item, state)
                if question is not None:
                    yield question


def take(item: Item, work: FlushWork, attempt: Attempt) -> None:
    """Decide what becomes of a record: refused, answered from the record of its key, held, or stored.

    Raises StreamFault when its case cannot be read here.
    """
    sender = item.sender
    if sender.project_id in work.closed or not all(names.gate(one) in work.loaded.gates for one in _gates(sender)):
        attempt.held.append(item)
        return
    project = work.projects.get(sender.project_id)
    try:
        _admit(item, project, work)
    except Rejection as refused:
        attempt.settled.append((item, refused))
        return
    assert project is not None, "admitted"
    if item.key_record is not None:
        if item.key_name not in work.loaded.names:
            attempt.held.append(item)
            return
        repeated = _repeat(item, work)
        if repeated is not None:
            attempt.settled.append((item, repeated))
            return
    try:
        assigned = assign(item, work) if item.offered else None
    except StreamFault as fault:
        attempt.settled.append((item, fault))
    else:
        if assigned is None and item.offered:
            attempt.held.append(item)
        else:
            attempt.stored.append(_store(item, assigned, project.account_id, work))


def _admit(item: Item, project: Project | None, work: FlushWork) -> None:
    """Prove the sender of a record under the gates. Raises Unauthenticated, and for an import as its authority."""
    importing = item.sender.importing
    if project is None or not (importing or project.knows(item.sender.dsn_hash)):
        raise Unauthenticated
    if importing is not None:
        importing.authority.check(_unit(item, [], [], work))
    if not project.active:
        raise ProjectDeletionInProgress("The project is being deleted.")


def _gates(sender: Sender) -> Sequence[str]:
    """The gates of an importing person."""
    return () if sender.importing is None else sender.importing.authority.gates


def _repeat(item: Item, work: FlushWork) -> Outcome | Exception | None:
    """Answer a record from that of its key; None when it is new. Its answer, if it has one, is final."""
    assert item.key_record is not None
    record = work.loaded.records.get(item.key_record)
    if item.part is not None:
        if work.tally.has_part(item) or (record is not None and item.part.is_in(record.body)):
            return REPEATED
        return None
    try:
        return replay(record, item.sender.request_hash)
    except KeyReused as refusal:
        return refusal


def _store(item: Item, assigned: Assigned | None, account_id: str, work: FlushWork) -> Stored:
    """Put a record into the tally, and its answer with it if the record of its key has to hold that."""
    suppressed = work.tally.add(item, assigned, account_id)
    if item.key_record is not None:
        received_at = work.batch.now
        work.tally.remember(item, received_at)
        if item.part is None:
            made = IdempotencyRecord(
                item.sender.request_hash, item.row.id, STORED, item.answer(received_at), NO_HEADERS
            )
            work.loaded.records[item.key_record] = made
    return Stored(item, suppressed)


def assign(item: Item, work: FlushWork) -> Assigned | None:
    """Find the case of an error, opening or reopening it if need be; None while something it needs is held.

    Raises StreamFault when that is the case, or what it needs to move: whether it is open is not known.
    """
    project_id = item.sender.project_id
    chosen = _choose(item, work)
    name = None if chosen is None else _follow((project_id, chosen.case_id), work)
    if chosen is None or name is None:
        return None
    known = work.counted.get(name)
    if known is not None:
        return Assigned(name[1], chosen.grouping, known.status)
    working = work.batch.streams.get(name)
    if working is None:
        return None
    imports = item.sender.importing is not None
    if not working.revision and not imports and not work.rooms[project_id].has_room(public=item.sender.public):
        return _assign_to_overflow(item, chosen.grouping, work)
    before = working.state.status
    moves = before is case.Status.ABSENT if imports else case.moves_on_error(working.state)
    if moves and not _move(item, name, chosen.grouping, work):
        return None
    status = work.batch.streams[name].state.status
    regressed = before is case.Status.RESOLVED and status is case.Status.OPEN
    return Assigned(name[1], chosen.grouping, status, item.evidence, regressed=regressed)


def _choose(item: Item, work: FlushWork) -> Assignment | None:
    """Find the grouping that an error keeps; None while a case that says so is held.

    An old grouping that knows the error keeps it; only what none knows opens a case, under the newest.
    """
    chosen = item.offered[-1]
    if len(item.offered) > 1:
        for offered in reversed(item.offered):
            name = (item.sender.project_id, offered.case_id)
            if name in work.absent:
                continue
            if name in work.counted or name in work.batch.faults:
                chosen = offered
            elif name not in work.batch.streams:
                return None
            elif work.batch.streams[name].revision:
                chosen = offered
    return chosen


def _follow(name: StreamName, work: FlushWork) -> StreamName | None:
    """Where the errors of a case go: into itself, or into the one that it was merged into.

    None while that is not in the flush. Raises StreamFault when either cannot be read.
    """
    _readable(work.batch, name)
    state = work.state_of(name)
    if state is None or state.merged_into is None:
        return name
    target = (name[0], state.merged_into)
    _readable(work.batch, target)
    if work.state_of(target) is not None:
        return target
    work.memory.learn_route(name, state.merged_into)
    return None


def _move(item: Item, name: StreamName, grouping: Grouping, work: FlushWork) -> bool:
    """Run the unit of a case that may open or regress; False while the rules of its project are held."""
    project_id = item.sender.project_id
    stream, rules = case.stream(*name), rules_of(project_id)
    _readable(work.batch, rules.name)
    if rules.name not in work.batch.streams:
        return False
    unit = _unit(item, [stream], [rules], work)
    fingerprint, state = grouping.fingerprint, unit.state(stream)
    offered = [assignment.grouping.fingerprint for assignment in item.offered]
    rule = suppressions.settling_rule(unit.state(rules).rules, *offered)
    if (importing := item.sender.importing) is not None:
        events = case.decide_import(state, fingerprint, grouping.version, importing.wished, rule, unit.now)
    else:
        if state.status is case.Status.ABSENT:
            work.rooms[project_id].open(public=item.sender.public)
        outdated = _question(item, state) in work.outdated or _is_late(item, state, unit.now)
        events = case.decide_error(state, fingerprint, grouping.version, rule, unit.now, outdated=outdated)
    unit.append(stream, events)
    unit.accept()
    return True


def _assign_to_overflow(item: Item, grouping: Grouping, work: FlushWork) -> Assigned | None:
    """Count an error that is too new into the overflow case of the hour (G-136); None until that is locked."""
    project_id = item.sender.project_id
    hour = work.rooms[project_id].hour
    stream = overflow_of(project_id, hour)
    _readable(work.batch, stream.name)
    known = work.counted.get(stream.name)
    if known is not None:
        return Assigned(stream.id, grouping, known.status)
    working = work.batch.streams.get(stream.name)
    if working is None:
        work.memory.learn_full(project_id, hour)
        return None
    if not working.revision:
        unit = _unit(item, [stream], [], work)
        unit.append(stream, case.decide_overflow(unit.state(stream), hour, unit.now))
        unit.accept()
    status = work.batch.streams[stream.name].state.status
    return Assigned(stream.id, grouping, status, OVERFLOW)


def _readable(batch: Batch, name: StreamName) -> None:
    """Raise the fault of a stream that cannot be read."""
    if name in batch.faults:
        raise batch.faults[name]


def _question(item: Item, state: case.Case) -> ReleaseQuestion | None:
    """What has to be known of an error's release when its case is resolved; None when there is nothing to ask."""
    row = item.row
    if not isinstance(row, LogRow) or row.release is None or state.resolved_at is None:
        return None
    return ReleaseQuestion(row.project_id, row.environment, row.release, state.resolved_at)


def _is_late(item: Item, state: case.Case, now: int) -> bool:
    """Compare the time of an arriving error with that of the repair of its case."""
    row = item.row
    return isinstance(row, LogRow) and case.arrived_late(
        state, occurred_at(SdkClock(row.happened, row.sent), now, public=row.public), now
    )


def _unit(item: Item, streams: Sequence[Stream], reads: Sequence[Stream], work: FlushWork) -> UnitOfWork:
    """Begin the unit of work that a record causes."""
    command = Command(origin=item.sender.origin(item.operation), decide=_decided, streams=streams, reads=reads)
    return UnitOfWork(work.batch, command, item.row.id)


def _decided(_unit: Any) -> Answer:
    """Stand in for the decision of a command: a flush decides by itself and answers its records one by one."""
    return Answer(STORED, None)
