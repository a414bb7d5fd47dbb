"""Rows as they were: a stream is folded up to a mark by the fold that keeps its row, and shown by the same code.

A mark is a revision of the stream, a position in the log or an epoch second. Revisions, positions and times rise
together along a stream, so a mark parts its events into those that had happened and those that had not. A second
counts whole: what is asked within it may still be joined by what happens before its end. An event committed during the
read is not shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, cast

import msgspec
import psycopg

from projections.kernel import AnyProjection, Table
from schemas.kernel.errors import InvalidField, InvalidPayloadDetails
from schemas.kernel.shape import AS_OF
from service.eventstore.declare.faults import StreamIsNewer
from service.eventstore.read.recorder import FencedRecorder
from service.eventstore.read.stored import MAPPER, LogEvent, StreamEvent
from service.eventstore.store import EventStore
from service.history.audit import Difference, Report, count_rows, reported, unreported
from service.sql import load_query
from statemachines.kernel.machine import Rejection, StateMachine, Stream
from statemachines.kernel.topics import UnknownTopic

R = TypeVar("R", bound=msgspec.Struct)

FIRST_PAGE, PAGE = 8, 500
"""Events that are read at a time, of the first page and of any: between two the event loop does other things."""
PAGE_BYTES = 1024 * 1024
"""Bytes of payload of a page. An event that is larger is a page by itself."""

BOUND = {
    "r": load_query("history", "bound_by_revision"),
    "p": load_query("history", "bound_by_position"),
    "t": load_query("history", "bound_by_time"),
}
"""Where a stream ends by a unit, and the first revision after a mark. Parameters as `bounds` lays them out.

Without an event after the mark it is the next revision: one may commit before the read of the events.
"""
# A page ends before the event that would be too much. The database weighs one payload after the other, and none that is
# left out comes here.
_READ = load_query("history", "page_before")


class MarkAhead(Rejection):
    """A mark that is not reached yet: nobody knows what will be shown then."""

    code = "invalid_payload"

    def __init__(self, mark: Mark, end: int) -> None:
        self.reason = f"{mark.unit}:{mark.at} is not reached yet: the end is {mark.unit}:{end}"
        details = InvalidPayloadDetails(invalid_fields=[InvalidField("as_of", self.reason)])
        super().__init__("A parameter is not acceptable.", **msgspec.to_builtins(details))


class Mark(NamedTuple):
    """A moment in the life of a stream: revision (r), position in the log (p) or epoch second (t)."""

    unit: Literal["r", "p", "t"]
    at: int


class RowSource(Protocol):
    """What one row is read from: the read models, or the past."""

    async def get(self, table: Table[R], project_id: str, id: str) -> R | None:
        """Read one row by its key."""


def parse_mark(text: str) -> Mark:
    """Read a mark such as `r:12`, `p:345` or `t:1700000000`. Raises ValueError."""
    if re.match(AS_OF, text) is None:
        raise ValueError(f"{text!r} is no revision r:N, position p:N or time t:N")
    unit, _, number = text.partition(":")
    return Mark(cast("Literal['r', 'p', 't']", unit), int(number))


LATEST = 253_402_300_799
"""The last second that the database can name, of the year 9999: every later one is as far from being reached."""


def bounds(mark: Mark, project_id: str, stream_id: str) -> tuple[Any, ...]:
    """The parameters of BOUND."""
    at = min(mark.at, LATEST) if mark.unit == "t" else mark.at
    return project_id, stream_id, project_id, stream_id, at, project_id, stream_id


def require_reached(mark: Mark, end: int | None) -> None:
    """Refuse a mark beyond what there is. A stream that does not exist has nothing to be beyond. Raises MarkAhead."""
    if end is not None and mark.at > end:
        raise MarkAhead(mark, end)


def until(connection: psycopg.Connection[Any], mark: Mark, events: Sequence[LogEvent]) -> list[LogEvent]:
    """Those events of one stream that had happened at a mark. Raises MarkAhead."""
    first = events[0]
    query = BOUND[mark.unit]
    [[end, first_after]] = connection.execute(query, bounds(mark, first.project_id, first.stream_id)).fetchall()
    require_reached(mark, end)
    return [event for event in events if event.revision < first_after]


class Past:
    """The read models as they were at a mark, a row at a time."""

    def __init__(self, store: EventStore, mark: Mark) -> None:
        self._store = store
        self._mark = mark

    async def get(self, table: Table[R], project_id: str, id: str) -> R | None:
        """Fold one stream up to the mark. None while it had no row.

        Raises MarkAhead, StreamIsNewer (G-149), and what reading raises.
        """
        projection, stream = self._owner(table, project_id, id)
        [[end, first_after]] = await self._store.fetch(BOUND[self._mark.unit], *bounds(self._mark, project_id, id))
        require_reached(self._mark, end)
        row, revision, most = None, 0, min(FIRST_PAGE, PAGE)
        while revision + 1 < first_after:
            page = await self._store.fetch(_READ, project_id, id, revision, first_after, most, PAGE_BYTES)
            if not page:
                break
            for stored in map(StreamEvent._make, page):
                revision = stored.revision
                if stored.payload is None:  # An erased event has left nothing to fold.
                    continue
                try:
                    recorded = MAPPER.to_domain_event(stored)
                except UnknownTopic as unknown:
                    raise StreamIsNewer(stream, unknown.topic) from None
                row = projection.fold(row, recorded)
            # One that was cut weighs more than it brings: the next asks for about as many as came.
            most = min(PAGE, 2 * len(page))
        return cast("R | None", row)

    def _owner(self, table: Table[Any], project_id: str, stream_id: str) -> tuple[AnyProjection, Stream]:
        """The projection that keeps a table, and the stream whose row it keeps there."""
        for kind, kept in self._store.registry.inline.items():
            for projection in kept:
                if projection is table:
                    return projection, Stream(self._store.registry.machines[kind], project_id, stream_id)
        raise AssertionError(f"{table.name} is no read model of one stream")


# Whether snapshots are what replay would make of their streams: a state from which decisions start. Reads only.

Connection = psycopg.Connection[Any]

TABLE = "snapshots"

_SNAPSHOTS = load_query("history", "snapshots")


def check_snapshots(
    connection: Connection, machines: Mapping[str, StateMachine[Any]], report: Report = unreported
) -> Iterator[Difference]:
    """Replay each stream up to its snapshot and compare. Yields the streams with another snapshot.

    One of another form of the state is not taken up by this release, and passed over; so is one of erased events.
    """
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read, read only")
        with connection.cursor(name="snapshots") as cursor:
            cursor.itersize = 100
            cursor.execute(_SNAPSHOTS)
            stored = reported(cursor, count_rows(connection, TABLE), report)
            for project_id, stream_id, revision, version, kind, head in stored:
                machine = machines.get(kind or "")
                if head is None or revision > head:
                    yield Difference("extra", project_id, stream_id)
                elif machine is not None and version == machine.snapshot_version:
                    what = _compare(FencedRecorder.over(connection), machine, project_id, stream_id)
                    if what is not None:
                        yield Difference(what, project_id, stream_id)


def _compare(recorder: FencedRecorder, machine: StateMachine[Any], project_id: str, stream_id: str) -> str | None:
    """What is wrong with the snapshot of a stream."""
    [snapshot] = recorder.snapshots.select_events(stream_id, project_id=project_id)
    state = machine.initial
    for stored in recorder.select_events(stream_id, project_id=project_id, lte=snapshot.revision):
        if stored.payload is None:
            return None
        try:
            state = machine.evolve(state, MAPPER.to_domain_event(stored).event)
        except UnknownTopic:
            return None
        except Exception:  # noqa: BLE001 - whatever a payload that no release wrote makes of it
            return "history_unreadable"
    try:
        found = snapshot.decoded(machine.state_type)
    except (msgspec.MsgspecError, RecursionError):
        return "row_unreadable"
    return None if found == state else "different"
