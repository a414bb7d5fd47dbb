"""From counted rows to the rows of an answer: shares, rates, and the days on which nothing came (G-152, G-153).

Either provider counts sparsely, by its own SQL; what follows from the counts is derived here, once for both. All of it
is pure. Days are epochs of UTC midnights; a share of nothing is None, and so is a number that nobody knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from service.analytics.blueprints.declared import Row
from service.analytics.bounded import Window
from service.eventstore.connect.facts import DAY
from statemachines.reports.source import DECIMALS, share


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
        (place, event, users, share(users, people[0]), None if prior is None else share(users, prior), people[0])
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
        (day, size, later, users, share(users, size))
        for day, later in islice(pairs, most)
        for size, users in [(sizes.get(day, 0), counted.get((day, later), 0))]
    ]


def with_share(rows: Iterable[Row]) -> list[Row]:
    """Values with their share of all rows of the event."""
    return [(value, times, people, share(times, total), total) for value, times, people, total in rows]


def error_free(
    window: Window, active: Mapping[int, int], failing: Mapping[int, int], kept_from: int | None
) -> list[Row]:
    """Days with the share of people who met no error.

    There is no share where errors are no longer kept, and where more people met one than had an event: then errors call
    people by other names than events do.
    """
    return [
        (day, users, failed, None if failed is None or failed > users else share(users - failed, users))
        for day in days_of(window)
        for users in [active.get(day, 0)]
        for failed in [None if kept_from is not None and day < kept_from else failing.get(day, 0)]
    ]


def rate(errors: int, sample: int) -> float | None:
    """Errors for each thousand events; None without any event."""
    return round(1000 * errors / sample, DECIMALS) if sample else None
