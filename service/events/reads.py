"""Reads of the log for one project: pages of a project, pages of a stream, and events at their positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.history.stored import StoredEvent
from service.eventstore.store import EventStore

PAGE_BYTES = 256 * 1024
"""Payloads in one page, which ends with the event that passes it. Queries guess it from the sizes in the table."""

_OF_PROJECT = load_sql("events", "of_project")
_OF_PROJECT_BEFORE = load_sql("events", "of_project_before")
_OF_STREAM = load_sql("events", "of_stream")
_OF_STREAM_UNTIL = load_sql("events", "of_stream_until")
_AT_POSITIONS = load_sql("events", "at_positions")
_REVISION_AFTER = load_sql("events", "revision_after")
_STREAM_OF_PERSON = load_sql("events", "stream_of_person")


class EventSource(NamedTuple):
    """The events of a project, or of one of its streams."""

    project_id: str
    stream_id: str | None = None


class EventsRead(NamedTuple):
    """Some events in the order of the log, the position to go on after, the size of the log, and whether more follow.

    `more` is false at the end of the log, as far as the read saw it.
    """

    events: list[StoredEvent]
    next_after: int
    log_size: int
    more: bool


async def find_stream(store: EventStore, stream_id: str, user_id: str) -> str | None:
    """Find the project of a stream among those of a person."""
    rows = await store.doors.fetch(_STREAM_OF_PERSON, stream_id=stream_id, user_id=user_id)
    return rows[0][0] if rows else None


async def read_page(store: EventStore, source: EventSource, after: int, limit: int) -> EventsRead:
    """Read the events after a position."""
    if source.stream_id is None:
        return await _of_project(store, source.project_id, after, limit)
    named = {"project_id": source.project_id, "stream_id": source.stream_id}
    [[revision]] = await store.fetch(_REVISION_AFTER, **named, after=after)
    rows = await store.fetch(_OF_STREAM, **named, revision=revision, limit=limit, bytes=PAGE_BYTES)
    events = _fitting([StoredEvent._make(row[1:]) for row in rows if row[1] is not None])
    reached = events[-1].position if events else None
    return EventsRead(events, reached or after, rows[0][0], bool(events))


async def _of_project(store: EventStore, project_id: str, after: int, limit: int) -> EventsRead:
    rows = await store.fetch(_OF_PROJECT, project_id=project_id, after=after, limit=limit, bytes=PAGE_BYTES)
    size, matched = rows[0][:2]
    events = _fitting([StoredEvent._make(row[2:]) for row in rows if matched])
    reached = events[-1].position if events and _was_cut(events, matched, limit) else None
    next_after = max(after, size) if reached is None else reached
    return EventsRead(events, next_after, size, next_after < size)


class EventsBefore(NamedTuple):
    """Some events in the order of the log, the position to look before next, if any, and the size of the log."""

    events: list[StoredEvent]
    next_before: int | None
    log_size: int


async def read_before(store: EventStore, source: EventSource, before: int, limit: int) -> EventsBefore:
    """Read the last events before a position."""
    if source.stream_id is None:
        return await _of_project_before(store, source.project_id, before, limit)
    named = {"project_id": source.project_id, "stream_id": source.stream_id}
    [[revision]] = await store.fetch(_REVISION_AFTER, **named, after=before - 1)
    rows = await store.fetch(_OF_STREAM_UNTIL, **named, revision=revision, limit=limit, bytes=PAGE_BYTES)
    events = _fitting([StoredEvent._make(row[1:]) for row in rows if row[1] is not None])[::-1]
    more = bool(events) and events[0].revision > 1
    return EventsBefore(events, events[0].position if more else None, rows[0][0])


async def _of_project_before(store: EventStore, project_id: str, before: int, limit: int) -> EventsBefore:
    rows = await store.fetch(_OF_PROJECT_BEFORE, project_id=project_id, before=before, limit=limit, bytes=PAGE_BYTES)
    size, matched = rows[0][:2]
    events = _fitting([StoredEvent._make(row[2:]) for row in rows if matched])[::-1]
    more = bool(events) and _was_cut(events, matched, limit)
    first = any(event.stream_id == project_id and event.revision == 1 for event in events)
    return EventsBefore(events, events[0].position if more and not first else None, size)


async def read_at(store: EventStore, source: EventSource, positions: Sequence[int]) -> list[StoredEvent]:
    """Read the events of a source at some positions."""
    rows = await store.fetch(_AT_POSITIONS, project_id=source.project_id, positions=list(positions))
    events = [StoredEvent._make(row) for row in rows]
    return [event for event in events if source.stream_id in (None, event.stream_id)]


def _was_cut(events: Sequence[StoredEvent], matched: int, limit: int) -> bool:
    """Whether there may be more than a page has: it is full, or what was found did not fit."""
    return len(events) < matched or matched >= limit


def _fitting(events: list[StoredEvent]) -> list[StoredEvent]:
    """Keep the events of one page, of those that a query guessed to be one."""
    size = 0
    for number, event in enumerate(events, 1):
        size += len(event.payload or "")
        if size >= PAGE_BYTES:
            return events[:number]
    return events
