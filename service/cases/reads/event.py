"""Reads of the stored errors of a case and of those merged into it (G-176). Each looks at a bounded number of rows.

A day is a partition, and only days that may have rows are opened: from when the cases were last seen to when they were
first seen, a few at once, and ever more while a page is not full.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import NamedTuple

from service.auth.refusals import refusal
from service.eventstore.connect.facts import DAY
from service.eventstore.read.reader import END, PageEnd
from service.eventstore.store import EventStore
from service.ids import made_at
from service.packing import unpacked_size
from service.sql import load_query

AT_ONCE = 10  # rows that a statement reads: each may have a quarter of a megabyte
WIDER = 4  # times as many days in each statement that comes after one that found too few
NEAR = 120  # seconds between the clocks of two machines, or those that a record waits for its commit
MOST_LOOKED_AT = 100_000  # errors of each case, newest first

_FAMILY = load_query("cases", "family")
_EVENTS = load_query("cases", "events")
_EVENT = load_query("cases", "event")
_EVENT_TIME = load_query("cases", "event_time")
_EVENTS_BESIDE = load_query("cases", "events_beside")


class Family(NamedTuple):
    """A case and those merged into it, when their errors came (epoch seconds), and whether some were no proofs."""

    case_ids: list[str]
    first_seen_at: int
    last_seen_at: int
    unmarked: bool


class Beside(NamedTuple):
    """The ids of the errors next to one. None at an end."""

    newer: str | None
    older: str | None


class EventRow(NamedTuple):
    """An error as it is stored; members that are JSON are texts. Either `extra` holds what was sent, or `packed`."""

    received_at: int
    id: str
    level: str
    message: str
    environment: str
    release: str | None
    user: str | None
    tags: str
    extra: str
    packed: bytes | None
    grouped_by: str | None
    adjusted: str | None
    public: bool
    occurred_at: int

    @property
    def place(self) -> PageEnd:
        """Where a page ends that ends with it."""
        return PageEnd(self.received_at, self.id)

    @property
    def size(self) -> int:
        """About how many bytes of text it is, unpacked."""
        texts = (self.message, self.user, self.tags, self.extra, self.adjusted)
        return sum(len(text) for text in texts if text) + (unpacked_size(self.packed) if self.packed else 0)


async def family_of(store: EventStore, project_id: str, case_id: str) -> Family:
    """Read a case with those merged into it. Raises `case_not_found`."""
    rows = await store.fetch_planned(_FAMILY, project_id=project_id, case_id=case_id)
    if not rows or rows[0][0] != case_id:
        raise refusal("case_not_found")
    ids, first, last, unmarked = zip(*rows, strict=True)
    return Family(list(ids), min(first), max(last), any(unmarked))


def first_of_days(place: PageEnd, days: int) -> int:
    """The first second of so many days up to a place."""
    return place.at - place.at % DAY - (days - 1) * DAY


async def newest(
    store: EventStore, project_id: str, family: Family, after: PageEnd, limit: int
) -> AsyncGenerator[Sequence[EventRow]]:
    """Read at most `limit` errors after a place, newest first, a few at once."""
    place, days = min(after, PageEnd(family.last_seen_at, END.id)), 1
    # The counter of a case is that of the flush that opened it, which another may have come before by a moment.
    floor = max(family.first_seen_at - DAY, 0)
    while limit > 0 and place.at >= floor:
        low, wanted = first_of_days(place, days), min(limit, AT_ONCE)
        rows = await store.fetch_planned(
            _EVENTS,
            project_id=project_id,
            case_ids=family.case_ids,
            low=low,
            at=place.at,
            id=place.id,
            limit=wanted,
        )
        found = [EventRow(*row) for row in rows]
        if found:
            yield found
        limit -= len(found)
        if len(found) == wanted:
            place = found[-1].place
        else:  # There are no more in these days.
            place, days = PageEnd(low - 1, END.id), days * WIDER


async def event_of(store: EventStore, project_id: str, family: Family, event_id: str) -> EventRow:
    """Read one error. Raises `event_not_found`, also for one of another case.

    It is looked for about when its id was made, then among the newest errors of each case.
    """
    about = made_at("log", event_id)
    if about is None:
        raise refusal("event_not_found")
    for low, high in ((about - NEAR, about + NEAR), (0, END.at)):
        rows = await store.fetch_planned(
            _EVENT_TIME,
            project_id=project_id,
            case_ids=family.case_ids,
            low=low,
            high=high,
            most=MOST_LOOKED_AT,
            id=event_id,
        )
        if rows and (found := await event_at(store, project_id, PageEnd(rows[0][0], event_id))) is not None:
            return found
    raise refusal("event_not_found")


async def beside(store: EventStore, project_id: str, family: Family, place: PageEnd) -> Beside:
    """Find the stored errors of a case next to a place: within a day of it, then within all days of the case."""
    found = Beside(None, None)
    for low, high in ((place.at - DAY, place.at + DAY), (family.first_seen_at - DAY, family.last_seen_at + DAY)):
        [row] = await store.fetch_planned(
            _EVENTS_BESIDE,
            project_id=project_id,
            case_ids=family.case_ids,
            at=place.at,
            id=place.id,
            low=low,
            high=high,
        )
        found = Beside(*row)
        if found.newer is not None and found.older is not None:
            break
    return found


async def event_at(store: EventStore, project_id: str, place: PageEnd) -> EventRow | None:
    """Read an error by its time of receipt and its id; None once retention has taken it."""
    rows = await store.fetch_planned(_EVENT, project_id=project_id, received_at=place.at, id=place.id)
    return EventRow(*rows[0]) if rows else None
