"""What a blueprint is made of: its parameters and columns, and how its rows are read and finished (G-153).

A blueprint is declared in the module of its kind (events.py, errors.py, …) with a query for our own records and,
where it asks for events, one of HogQL for a connected provider. Both return the same sparse counts, and one pure
function makes the shown rows of them: shares, conversions, the days on which nothing happened.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from schemas.analytics import Column
from service.analytics.bounded import LONGEST_DAYS, MOST_ROWS, Rows, Source, Window
from service.auth.refusals import InvalidPayload
from service.eventstore.connect.facts import DAY
from service.sql import Statement
from statemachines.kernel.machine import ReadFailed
from statemachines.reports import DECIMALS
from statemachines.reports import share as share_of

# The parameters of blueprints, and the windows that runs count in (G-152, G-153).

EventName = Annotated[str, Meta(min_length=1, max_length=200, description="Name of an event.")]
Days = Annotated[int, Meta(ge=1, le=90, description="Days of 86,400 seconds that end with the time of the read.")]
Environment = Annotated[str, Meta(min_length=1, max_length=200, description="Count errors of this environment alone.")]
TopLimit = Annotated[int, Meta(ge=1, le=200, description="Rows at most, the first in their order.")]

DEFAULT_DAYS = 30
DEFAULT_TOP = 20

Span = Callable[[Any, int | None, int | None, int], Window]
"""Finds the window of a run from its parameters, `from`, `to` and the time of the read. Raises InvalidPayload."""


class DaysParams(msgspec.Struct, frozen=True, kw_only=True):
    """A number of days."""

    days: Days = DEFAULT_DAYS


class EventParams(DaysParams, frozen=True, kw_only=True):
    """An event, and a number of days."""

    event: EventName


class TopParams(DaysParams, frozen=True, kw_only=True):
    """A number of days, and of rows."""

    limit: TopLimit = DEFAULT_TOP


class ErrorParams(DaysParams, frozen=True, kw_only=True):
    """A number of days, and an environment; without one errors of all are counted."""

    environment: Environment | None = None


def by_days(params: Any, since: int | None, until: int | None, as_of: int) -> Window:
    """The days that end with `as_of`, its second included, unless `from` or `to` says otherwise (G-152)."""
    days = getattr(params, "days", DEFAULT_DAYS)
    end = as_of + 1 if until is None else until
    return checked(Window(end - days * DAY if since is None else since, end))


def checked(window: Window) -> Window:
    """Return the window. Raises InvalidPayload for one that is empty, too long, or begins before the epoch."""
    if window.since >= window.until:
        raise InvalidPayload("The window is empty.", invalid=[("from", "must be earlier than the end of the window")])
    if window.until - window.since > LONGEST_DAYS * DAY:
        reason = f"must be at most {LONGEST_DAYS} days before the end of the window"
        raise InvalidPayload("The window is too long.", invalid=[("from", reason)])
    if window.since < 0:
        raise InvalidPayload("The window begins too early.", invalid=[("to", "must be later")])
    return window


Row = tuple[Any, ...]


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """One bounded query of a blueprint; see Bounded for what its parts are. `window` None: that of the run."""

    source: Source
    local: Statement
    connected: str | None = None
    copied: str | None = None
    row: Any
    single: bool = False
    values: Mapping[str, Any] = {}
    window: Window | None = None


class Counted(msgspec.Struct, frozen=True):
    """The finished rows of a blueprint; `window` is the time that they are of where that is not the run's."""

    rows: Sequence[Row]
    window: Window | None = None


Ask = Callable[[Read], Awaitable[Rows | ReadFailed]]
"""Carries out one read of a run; of more rows than a run has, it returns the first."""
Answer = Callable[[Ask, Any, Window], Awaitable[Counted | ReadFailed]]
"""Reads and finishes the rows of a run. The window is what there is to count: it never reaches beyond the present."""


class Blueprint(msgspec.Struct, frozen=True, kw_only=True):
    """One named question.

    `copied` are the sources that it reads from the copy where there are too many rows for PostgreSQL (G-200).
    `source` is what it is about: a run makes at least one read of it, whose freshness is told. `params` is the struct
    of its parameters, tolerant of others; `event_params` names those that hold names of events. A parameter `limit`
    bounds the shown rows. `span` finds the window of a run. `numeric` columns are what an alert may compare.
    """

    id: str
    title: str
    description: str
    source: Source
    params: type[msgspec.Struct]
    columns: tuple[Column, ...]
    answer: Answer
    span: Span = by_days
    event_params: tuple[str, ...] = ()
    copied: frozenset[Source] = frozenset()
    max_rows: int = MOST_ROWS

    @property
    def numeric(self) -> frozenset[str]:
        """Names of the columns that hold numbers."""
        return frozenset(column.name for column in self.columns if column.type in {"integer", "number"})

    def events_of(self, params: Any) -> tuple[str, ...]:
        """The names of events that a run with these parameters is about, in their order."""
        found: list[str] = []
        for name in self.event_params:
            value = getattr(params, name)
            found += [value] if isinstance(value, str) else value
        return tuple(dict.fromkeys(found))


def one_read(
    read: Callable[[Any], Read], finish: Callable[[Any, Window, list[Row]], Sequence[Row]] | None = None
) -> Answer:
    """Answer from a single read: what is asked follows from the parameters, and `finish` is pure."""

    async def answer(ask: Ask, params: Any, window: Window) -> Counted | ReadFailed:
        found = await ask(read(params))
        if isinstance(found, ReadFailed):
            return found
        return Counted(found.rows if finish is None else finish(params, window, found.rows))

    return answer


# The columns of blueprints, and the types by which a provider's rows are checked.

Count = Annotated[int, Meta(ge=0)]
"""A count or a time, as a read returns it."""


def integer(name: str, unit: str, description: str) -> Column:
    """A whole number of something."""
    return Column(name, "integer", unit, description)


def share(name: str, description: str) -> Column:
    """A part of a whole, from 0 to 1."""
    return Column(name, "number", "share", description)


def rate(name: str, description: str) -> Column:
    """How many errors there are for each thousand events."""
    return Column(name, "number", "errors per 1000 events", description)


def text(name: str, unit: str | None, description: str) -> Column:
    """A text."""
    return Column(name, "string", unit, description)


def epoch(name: str, description: str) -> Column:
    """A time in epoch seconds."""
    return Column(name, "epoch", "seconds", description)


# From counted rows to the rows of an answer: shares, rates, and the days on which nothing came (G-152, G-153).
# Either provider counts sparsely, by its own SQL; what follows from the counts is derived here, once for both. All
# of it is pure. Days are epochs of UTC midnights; a share of nothing is None, and so is a number that nobody knows.


def days_of(window: Window) -> range:
    """The midnights of the days that a window touches; none of an empty one."""
    return range(window.since - window.since % DAY, window.until, DAY) if window.since < window.until else range(0)


def each_day(window: Window, rows: Iterable[Row], *nothing: int) -> list[Row]:
    """Rows by day, one for each day of a window: where none was counted, one that says `nothing`."""
    counted = {row[0]: row for row in rows}
    return [counted.get(day, (day, *nothing)) for day in days_of(window)]


def funnel_rows(events: Sequence[str], people: Sequence[int]) -> list[Row]:
    """Steps with their share of those at the first step, and of those at the step before: the first has none."""
    before = [None, *people]
    return [
        (place, event, users, share_of(users, people[0]), None if prior is None else share_of(users, prior), people[0])
        for place, (event, users, prior) in enumerate(zip(events, people, before, strict=False), 1)
    ]


def retained(window: Window, sizes: Mapping[int, int], rows: Iterable[Row], most: int) -> list[Row]:
    """Each day's cohort on each later day of a window: its size, who returned, and their share of it.

    A year has seven times as many pairs of days as an answer has rows: of them the first `most`.
    """
    counted = {(day, returned_on): users for day, returned_on, users in rows}
    days = days_of(window)
    pairs = ((day, later) for day in days for later in range(day + DAY, days.stop, DAY))
    return [
        (day, size, later, users, share_of(users, size))
        for day, later in islice(pairs, most)
        for size, users in [(sizes.get(day, 0), counted.get((day, later), 0))]
    ]


def with_share(rows: Iterable[Row]) -> list[Row]:
    """Values with their share of all rows of the event."""
    return [(value, times, people, share_of(times, total), total) for value, times, people, total in rows]


def error_free(
    window: Window, active: Mapping[int, int], failing: Mapping[int, int], kept_from: int | None
) -> list[Row]:
    """Days with the share of people who met no error.

    There is no share where errors are no longer kept, and where more people met one than had an event: then errors call
    people by other names than events do.
    """
    return [
        (day, users, failed, None if failed is None or failed > users else share_of(users - failed, users))
        for day in days_of(window)
        for users in [active.get(day, 0)]
        for failed in [None if kept_from is not None and day < kept_from else failing.get(day, 0)]
    ]


def per_thousand(errors: int, sample: int) -> float | None:
    """Errors for each thousand events; None without any event."""
    return round(1000 * errors / sample, DECIMALS) if sample else None
