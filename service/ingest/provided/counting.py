"""One step of a look at a provider: cases, counters, uuids and the cursor, in one transaction (G-182).

It goes the way of a flush for one project, and all of it is stored or nothing. Each step names the one before it, so
of two looks at the same only one is stored: a process after a kill, or without the answer to its
COMMIT, looks again and finds out by the uuids. What is held is waited for, a moment at a time.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import psycopg
import structlog

from service.eventstore.connect.connection import Connection
from service.eventstore.declare.faults import CommitNotConfirmed, Meaning, StreamFault, judge
from service.eventstore.state.loading import WritingSession
from service.eventstore.state.unit import Batch, Registry
from service.eventstore.write.writing import write
from service.fairness.turns import CommandNotDone
from service.ingest import locking
from service.ingest.deciding import FlushWork, assign
from service.ingest.flushing import begin
from service.ingest.grouping.fingerprint import Grouping, title
from service.ingest.items import Item
from service.ingest.provided.groups import OPERATION, MetGroup, sender_of
from service.ingest.tally import Assigned
from statemachines.cases.case import Status

log = structlog.get_logger(__name__)

TRIES = 20
PAUSE = 0.1
"""Seconds between tries while something is held."""

_encode = msgspec.json.Encoder().encode


class LookRow(NamedTuple):
    """Where looks at a project have come to. `cursor_at` is of the provider's clock, `read_to` of ours.

    `number` counts the steps, `place` is the host and the project there, `skipped` counts those beyond the bounds.
    """

    project_id: str
    connection_id: str
    place: str
    number: int
    cursor_at: int
    read_to: int
    skipped: int = 0


class LookStep(NamedTuple):
    """A step to store: the look as it stands then, with the number it skipped, and the groups it met.

    `last_at` is the latest time of the uuids by the provider's clock. `moved`: the provider is another one than before.
    """

    look: LookRow
    met: Sequence[MetGroup]
    last_at: int = 0
    moved: bool = False


class LookLost(Exception):
    """Another look was stored meanwhile, or the project has another connection, or takes no records."""


class Unstorable(Exception):
    """No column holds the texts of a step."""


class _CaseCount(msgspec.Struct):
    id: str
    title: str
    message: str
    culprit: str | None
    level: str
    environment: str
    release: str | None
    environments: list[str]
    releases: list[str]
    first_at: int
    last_at: int
    unmarked: bool = False
    errors: int = 0
    people: int = 0
    sample: Mapping[str, Any] | None = None


class _MinuteCount(msgspec.Struct):
    case_id: str
    minute: int
    environment: str
    release: str
    errors: int = 0
    synthetic: int = 0
    people: int = 0
    last_at: int = 0


class _NewGroup(NamedTuple):
    id: str
    offered: Sequence[Grouping]


class _Counts:
    """What a step adds, each row once."""

    def __init__(self) -> None:
        self.cases: dict[str, _CaseCount] = {}
        self.minutes: dict[tuple[str, int, str, str], _MinuteCount] = {}
        self.groups: list[_NewGroup] = []

    def add(self, met: MetGroup, assigned: Assigned, *, remembered: bool) -> None:
        """Count a group into its case. `remembered`: its group is known from now on."""
        row, case_id = met.row, assigned.case_id
        found = self.cases.get(case_id)
        if found is None:
            by = assigned.opened_by
            named = ("", "", None) if by is None else (title(by), by.message, by.frame)
            found = self.cases[case_id] = _CaseCount(
                case_id, *named, row.level, row.environment, row.release, [], [], met.first_at, met.last_at
            )
        if met.last_at >= found.last_at:
            found.level, found.environment, found.release = row.level, row.environment, row.release
            found.sample = met.sample or found.sample
        found.first_at, found.last_at = min(found.first_at, met.first_at), max(found.last_at, met.last_at)
        found.errors += met.number
        found.people = max(found.people, met.people)
        found.unmarked = found.unmarked or not met.marked
        if row.environment not in found.environments:
            found.environments.append(row.environment)
        if row.release is not None and row.release not in found.releases:
            found.releases.append(row.release)
        key = (case_id, met.last_at - met.last_at % 60, row.environment, row.release or "")
        minute = self.minutes.setdefault(key, _MinuteCount(*key))
        minute.errors += met.number
        minute.synthetic += met.number if met.marked else 0
        minute.people = max(minute.people, met.people)
        minute.last_at = max(minute.last_at, met.last_at)
        if met.sample is not None and remembered:
            offered = [one.grouping for one in met.item.offered]
            self.groups.append(_NewGroup(met.group, offered))

    def parameters(self) -> tuple[str, str, str]:
        """Rows of cases, minutes and groups."""
        groups = [{"id": group.id, "offered": group.offered} for group in self.groups]
        counts = (list(self.cases.values()), list(self.minutes.values()), groups)
        return tuple(_encode(rows).decode() for rows in counts)  # type: ignore[return-value] # of these three


class ProvidedCounter:
    """Stores steps, one after the other, from whatever thread. One of a process."""

    def __init__(self, conninfo: str, registry: Registry, new_cases_per_hour: int) -> None:
        self._session = WritingSession(conninfo, "service-provided")
        self._registry = registry
        self._memory = locking.Memory(registry)
        self._new_cases = new_cases_per_hour
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._session.close()

    def store(self, step: LookStep) -> None:
        """Store a step whole. Raises LookLost, Unstorable, CommandNotDone while something is held, and psycopg.Error.

        After CommandNotDone and psycopg.Error the next look finds out.
        """
        self._insist(lambda connection: self._stored(connection, step))

    def drop(self, project_id: str) -> None:
        """Drop what was counted and kept of the provider of a disconnected project. Raises as `store` does.

        It waits for a step under way, and no later one is stored. A project that is connected again keeps what it has.
        """
        self._insist(lambda connection: self._dropped(connection, project_id))

    def _insist(self, attempt: Callable[[Connection], bool]) -> None:
        """Carry out a transaction once nothing that it needs is held."""
        with self._lock:
            for _ in range(TRIES):
                try:
                    if attempt(self._session.open()):
                        return
                except LookLost:
                    self._forget()
                    raise
                except (psycopg.Error, CommitNotConfirmed) as error:
                    meaning = judge(error, self._session.connection).meaning
                    self._forget()
                    if meaning is Meaning.CALLERS_DATA:
                        raise Unstorable from error
                    if meaning is not Meaning.TRY_AGAIN:
                        self._session.close()
                        raise
                time.sleep(PAUSE)
            raise CommandNotDone

    def _forget(self) -> None:
        self._memory.forget()
        self._session.rollback()

    def _dropped(self, connection: Connection, project_id: str) -> bool:
        """Drop the counts of a project in a transaction. False while a lock is held elsewhere."""
        items = [Item(OPERATION, sender_of(project_id), None, b"")]
        work = begin(connection, self._registry, self._memory, f"looks:{project_id}", items, self._new_cases)
        if work is None or project_id in work.closed:
            connection.execute("rollback")
            return False
        [stands] = connection.execute(locking.STANDING, (project_id, project_id), prepare=True).fetchall()
        if stands[1] is not None:
            connection.execute("rollback")
            return True

        def put(connection: Connection, _: Batch) -> None:
            locking.leave_rooms(connection, work.rooms)
            connection.execute(locking.DROP_PROVIDED, (project_id,), prepare=True)
            connection.execute(locking.DROP_LOOK, (project_id,), prepare=True)

        write(connection, work.batch, work.loaded, (), self._memory.cache, put)
        return True

    def _stored(self, connection: Connection, step: LookStep) -> bool:
        """Carry out a step in a transaction. False while a lock is held elsewhere."""
        look = step.look
        items = [met.item for met in step.met] or [Item(OPERATION, sender_of(look.project_id), None, b"")]
        work = begin(connection, self._registry, self._memory, f"looks:{look.project_id}", items, self._new_cases)
        if work is None or look.project_id in work.closed:
            connection.execute("rollback")
            return False
        project = work.projects.get(look.project_id)
        stands = connection.execute(locking.STANDING, (look.project_id, look.project_id), prepare=True).fetchone()
        if project is None or not project.active or stands != (look.number - 1, look.connection_id):
            raise LookLost
        counts = _counted(step.met, work)
        if counts is None:
            connection.execute("rollback")
            return False
        uuids = "".join("".join(met.ids) for met in step.met)
        values = (
            work.batch.moment,
            _encode({"id": look.project_id, **look._asdict()}).decode(),
            *counts.parameters(),
            uuids,
            step.last_at,
        )

        def put(connection: Connection, _: Batch) -> None:
            locking.leave_rooms(connection, work.rooms)
            if step.moved:
                connection.execute(locking.DROP_PROVIDED, (look.project_id,), prepare=True)
            connection.execute(locking.STORE_PROVIDED, values, prepare=True)

        write(connection, work.batch, work.loaded, (), self._memory.cache, put)
        return True


def _counted(met: Sequence[MetGroup], work: FlushWork) -> _Counts | None:
    """Find the case of each group, opening or reopening it if need be. None while one is held.

    A group with an unreadable case is left out.
    """
    counts = _Counts()
    for one in met:
        try:
            assigned = assign(one.item, work)
        except StreamFault as fault:
            log.warning("provider_group_left_out", stream=str(fault))
            continue
        if assigned is None:
            return None
        opened = assigned.status is not Status.OVERFLOW
        counts.add(one, assigned, remembered=opened)
    return counts
