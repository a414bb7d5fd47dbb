"""What a flush locks, knows and remembers before it decides: clock, projects of its senders, new cases of the hour."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import msgspec

from service.eventstore.connect.connection import Connection
from service.eventstore.connect.pipeline import array, columns
from service.eventstore.declare import names
from service.eventstore.declare.commands import IdempotencyRecord
from service.eventstore.state.cache import KEPT_BYTES, StateCache, StreamName
from service.eventstore.state.loading import Footprint, Loaded, StreamHead, lock_and_load
from service.eventstore.state.unit import Registry
from service.fairness.bounds import SHARE
from service.ingest.items import Item
from service.sql import load_query
from statemachines.cases import case
from statemachines.cases import suppression as suppressions
from statemachines.kernel.machine import Stream

# The statements of the intake, beside those it shares with the rounds of the command loop.

# Plain statements, outside a pipeline: they arm the timeout of an idle transaction (see eventstore/write/round.py).
FACTS = load_query("ingest/flushing", "facts")
LOCK = load_query("ingest/flushing", "lock")
STORE = load_query("ingest/flushing", "store")
PARTS = load_query("ingest/flushing", "parts")
FLUSH = load_query("ingest/flushing", "flush")
ENTER_ROOMS = load_query("ingest/flushing", "enter_rooms")
LEAVE_ROOMS = load_query("ingest/flushing", "leave_rooms")
LAST_BATCH = load_query("ingest/flushing", "last_batch")
WAIT_NAME = load_query("ingest/flushing", "wait_name")
GIVE_UP = load_query("ingest/flushing", "give_up")
END_SESSION = load_query("ingest/flushing", "end_session")
STANDING = load_query("ingest/flushing", "standing")
STORE_PROVIDED = load_query("ingest/flushing", "store_provided")
DROP_PROVIDED = load_query("ingest/flushing", "drop_provided")
DROP_LOOK = load_query("ingest/flushing", "drop_look")


# What a flush holds and knows before it decides: its locks, its clock, and the projects of its senders. A flush that
# moves no case takes one statement for it; one that may takes the way of a command loop's round. Those that can be
# foreseen whole are not locked here but counted (see `flushing.py`).

_encode = msgspec.json.Encoder().encode


class Project(NamedTuple):
    """A sender's project as it stands under its gate; `account_id` is its first owner (G-071).

    `public_dsn_hash` is None without a public DSN.
    """

    dsn_hash: str
    status: str
    account_id: str
    public_dsn_hash: str | None = None

    def knows(self, dsn_hash: str) -> bool:
        """Whether a hash is that of one of its DSNs."""
        return dsn_hash in {self.dsn_hash, self.public_dsn_hash}

    @property
    def active(self) -> bool:
        """Whether it takes records."""
        return self.status == "active"


class Locked(NamedTuple):
    """What was got: locks and reads, the clock of the flush, and the senders' projects."""

    loaded: Loaded
    moment: datetime
    projects: Mapping[str, Project]


class _Sender(NamedTuple):
    project_id: str
    dsn_hash: str
    status: str
    account_id: str


class _Stored(NamedTuple):
    project_id: str
    principal: str
    operation: str
    key: str
    fingerprint: str
    command_id: str
    status: int
    body: str


class _Got(msgspec.Struct):
    """The answer of `ingest_lock`."""

    moment: datetime
    gates: list[int] | None
    names: list[int] | None
    heads: list[tuple[str, str, int]] | None
    records: list[_Stored] | None
    projects: list[_Sender] | None
    public: list[tuple[str, str]] | None


_got = msgspec.json.Decoder(_Got).decode
_senders = msgspec.json.Decoder(list[_Sender]).decode
_public = msgspec.json.Decoder(list[tuple[str, str]]).decode


def lock(connection: Connection, footprint: Footprint, project_ids: Sequence[str]) -> Locked:
    """Begin the transaction and take what the footprint names, as far as it is free. Raises psycopg.Error."""
    if footprint.writes or footprint.reads or footprint.rows:
        return _lock_to_move(connection, footprint, project_ids)
    return _lock_to_count(connection, footprint, project_ids)


def _lock_to_move(connection: Connection, footprint: Footprint, project_ids: Sequence[str]) -> Locked:
    loaded = lock_and_load(connection, footprint, None, (FACTS, (array(project_ids),) * 2))
    moment, found, public = loaded.told
    return Locked(loaded, moment, _by_id(_senders(found) if found else (), _public(public) if public else ()))


def _lock_to_count(connection: Connection, footprint: Footprint, project_ids: Sequence[str]) -> Locked:
    gates = {names.lock_number(name): name for name in footprint.gates}
    wanted = {names.lock_number(name): name for name in footprint.names}
    records = [dict(zip(_RECORD, record, strict=True)) for record in footprint.records]
    connection.execute("begin", prepare=True)
    row = connection.execute(
        LOCK,
        (
            array(gates),
            array(wanted),
            array(project_id for project_id, _ in footprint.shared),
            array(stream_id for _, stream_id in footprint.shared),
            _encode(records).decode() if records else None,
            array(project_ids),
        ),
        prepare=True,
    ).fetchone()
    assert row is not None
    got = _got(row[0])
    loaded = Loaded()
    loaded.gates = {gates[number] for number in got.gates or ()}
    loaded.names = {wanted[number] for number in got.names or ()}
    loaded.heads = {
        (project_id, stream_id): StreamHead(revision) for project_id, stream_id, revision in got.heads or ()
    }
    for *name, request_hash, command_id, status, body in got.records or ():
        project_id, principal, operation, key = name
        loaded.records[project_id, principal, operation, key] = IdempotencyRecord(
            request_hash, command_id, status, body.encode(), {}
        )
    return Locked(loaded, got.moment, _by_id(got.projects or (), got.public or ()))


_RECORD = ("project_id", "principal", "operation", "key")


def _by_id(senders: Iterable[_Sender], public: Iterable[tuple[str, str]]) -> dict[str, Project]:
    hashes = dict(public)
    return {
        sender.project_id: Project(sender.dsn_hash, sender.status, sender.account_id, hashes.get(sender.project_id))
        for sender in senders
    }


# How many new cases a project may still open in this hour (G-136), and how many of them by its public DSN (G-184).
# The count is a row of its own for each project, locked from when a flush looks at it until its commit: however many
# flushes race, no case too many is opened. Only a flush that has something new to open touches the row. Whoever
# reads the source of a page has the public DSN. It opens at most half of an hour's cases, so that the errors of
# servers keep the other half, whatever pages send.

HOUR = 3600


@dataclass(slots=True)
class CaseRoom:
    """The room of a project in an hour (epoch seconds of its start): cases opened before this flush, and by it.

    Those with `public` are of these the ones by the public DSN.
    """

    hour: int
    limit: int
    before: int
    public_before: int
    opened: int = 0
    public_opened: int = 0

    def has_room(self, *, public: bool) -> bool:
        """Whether an error, by the `public` DSN or the server's, may open one more case."""
        if self.before + self.opened >= self.limit:
            return False
        return not public or self.public_before + self.public_opened < case.public_share(self.limit)

    def open(self, *, public: bool) -> None:
        """Count a case that an error has opened."""
        self.opened += 1
        self.public_opened += public


def enter_rooms(connection: Connection, project_ids: Iterable[str], now: int, limit: int) -> Mapping[str, CaseRoom]:
    """Lock and read the counts of these projects, in the order of their ids; at `now` in epoch seconds.

    An hour never ends twice: a flush that comes late counts into the hour that another has begun. Raises psycopg.Error.
    """
    wanted = sorted(project_ids)
    if not wanted:
        return {}
    rows = connection.execute(ENTER_ROOMS, (now - now % HOUR, array(wanted)), prepare=True).fetchall()
    return {project_id: CaseRoom(hour, limit, opened, public) for project_id, hour, opened, public in rows}


def leave_rooms(connection: Connection, rooms: Mapping[str, CaseRoom]) -> None:
    """Add what was opened. Raises psycopg.Error."""
    used = [(project_id, room.opened, room.public_opened) for project_id, room in rooms.items() if room.opened]
    if used:
        connection.execute(LEAVE_ROOMS, columns(used, 3), prepare=True)


# What a flusher remembers from one flush to the next, and what the next one needs by it. All of it may be out of
# date: it says what to lock and to read, and what is under the locks is compared with it.

MOST_PROJECTS = 10_000  # remembered; with more, all are forgotten and read again
MOST_ROUTES = 10_000  # of merged cases, likewise


def overflow_of(project_id: str, hour: int) -> Stream:
    """The case that takes in what is too new in an hour (G-136)."""
    return case.stream(project_id, case.case_id(project_id, case.overflow_fingerprint(hour)))


def rules_of(project_id: str) -> Stream:
    """The suppressions of a project."""
    return suppressions.stream(project_id)


class FlushPlan(NamedTuple):
    """The locks and reads of a flush, and the cases its records require to be absent."""

    footprint: Footprint
    absent: frozenset[StreamName]


class Memory:
    """States of cases and rules (`cache`), senders' projects, and what the flushes before have lacked.

    `moved` are cases that were only counted but have to change: they are locked to write next. `heavy` streams are
    loaded before the next flush: they are too much for one.
    """

    def __init__(self, registry: Registry) -> None:
        self.cache = StateCache(max_bytes=SHARE.of(KEPT_BYTES))
        self.projects: dict[str, Project] = {}
        self.moved: set[StreamName] = set()
        self.heavy: dict[StreamName, Stream] = {}
        self._registry = registry
        self._full: dict[str, int] = {}  # projects without room for new cases, and the hour in which that was so
        self._routes: dict[StreamName, str] = {}  # where merged cases lead

    def forget(self) -> None:
        """Start from nothing, after any error."""
        self.cache.clear()
        self.projects.clear()
        self.moved.clear()
        self.heavy = {}
        self._full.clear()
        self._routes.clear()

    def learn_projects(self, project_ids: Iterable[str], found: Mapping[str, Project]) -> None:
        """Keep projects as they were found; one that was not found is forgotten."""
        if len(self.projects) > MOST_PROJECTS:
            self.projects.clear()
        for project_id in project_ids:
            self.projects.pop(project_id, None)
        self.projects.update(found)

    def learn_route(self, name: StreamName, target: str) -> None:
        """Keep where a merged case leads, whose target the flush lacked."""
        if len(self._routes) > MOST_ROUTES:
            self._routes.clear()
        self._routes[name] = target

    def learn_full(self, project_id: str, hour: int) -> None:
        """Keep that a project has no room for new cases in an hour."""
        if len(self._full) > MOST_PROJECTS:
            self._full.clear()
        self._full[project_id] = hour

    def forget_hours_before(self, rooms: Mapping[str, CaseRoom]) -> None:
        """Forget that projects were full in an hour that is over."""
        for project_id, room in rooms.items():
            if self._full.get(project_id, room.hour) != room.hour:
                del self._full[project_id]

    def plan(self, flusher: str, items: Sequence[Item]) -> FlushPlan:
        """The locks and loads for these records, by present knowledge. `flusher` is a name to lock.

        An error whose newest case is known needs no lock on the older ones that nobody has met: that they do not
        exist is looked up in the transaction (G-174).
        """
        writes: dict[StreamName, Stream] = {}
        counted: dict[StreamName, Stream] = {}
        absent: set[StreamName] = set()
        for name, is_older in self._names_of(items):
            if is_older and name not in self.moved and self.cache.get(name) is None:
                absent.add(name)
                continue
            if name in counted or name in writes:
                continue
            known = self.cache.get(name)
            stays = known is not None and name not in self.moved and not case.moves_on_error(known.state)
            (counted if stays else writes)[name] = case.stream(*name)
        reads = []
        for project_id in {project_id for project_id, _ in writes}:
            if project_id in self._full:
                overflow = overflow_of(project_id, self._full[project_id])
                stays = self.cache.get(overflow.name) is not None and overflow.name not in self.moved
                (counted if stays else writes)[overflow.name] = overflow
            rules = rules_of(project_id)
            if self.cache.get(rules.name):
                reads.append(rules)
            else:
                writes[rules.name] = rules
        absent.difference_update(writes)
        reads += [case.stream(*name) for name in absent]
        imports = [item.sender.importing.authority for item in items if item.sender.importing is not None]
        keyed = {item.key_record: item.key_name for item in items if item.key_record is not None}
        footprint = Footprint(
            self._registry,
            self.cache,
            gates={item.sender.project_id for item in items}.union(*(authority.gates for authority in imports)),
            writes=writes.values(),
            reads=reads,
            names_wanted=[flusher, *keyed.values()],
            records=sorted(keyed),
            lookups=(lookup for authority in imports for lookup in authority.lookups),
            counted=counted.values(),
        )
        return FlushPlan(footprint, frozenset(absent))

    def _names_of(self, items: Iterable[Item]) -> Iterator[tuple[StreamName, bool]]:
        """The possible cases of errors: those on offer, and the known targets of these.

        Beside each, whether it is an older one than a case that is known to exist.
        """
        for project_id, offered in dict.fromkeys([(item.sender.project_id, item.offered) for item in items]):
            if not offered:
                continue
            is_older = len(offered) > 1 and self.cache.get((project_id, offered[-1].case_id)) is not None
            for assignment in offered:
                name = (project_id, assignment.case_id)
                yield name, is_older and assignment is not offered[-1]
                known = self.cache.get(name)
                for target in (self._routes.get(name), None if known is None else known.state.merged_into):
                    if target is not None:
                        yield (project_id, target), False
