"""Schedules as people write them: a conservative cron form, read in an IANA zone (G-100, R-PB-29).

Five numeric fields (minute hour day-of-month month day-of-week), separated by single spaces, made of numbers, `*`,
lists, ranges and steps; no names, no macros. The minute is one number, so that a schedule fires at most once an hour.
Sunday is 0 or 7. When both day fields are restricted either may match; a field that begins with `*` restricts
nothing by itself, so both have to match (the rule of Vixie's cron).

cronsim finds the firings, by the rules of Debian's cron at changes of the clock. A schedule with named hours fires once
for each: a skipped minute at the next one that exists, a repeated one the first time. One whose hours begin with `*`
fires by the real hour: not in a skipped one, and twice in a repeated one. cronsim steps by whole hours. Where the clock
changes by half an hour, it is given the name of each hour. Zones come from the pinned `tzdata` distribution, never from
the host, so every process computes the same slots.
"""

from collections import deque
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from functools import cache
from importlib.resources import files
from itertools import takewhile
from typing import NamedTuple
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim

LONGEST_GAP_DAYS = 366
"""A schedule has to fire at least once in any such span."""

_DAY = timedelta(days=1)
_MARGIN = 3 * 86_400
"""Seconds by which a search begins early: a zone may jump over a day, and in a repeated hour wall clocks run back."""
_HALF_HOURS = frozenset({"Australia/Lord_Howe", "Australia/LHI"})
"""Zones whose clock changes by half an hour."""
_GREGORIAN_CYCLE = range(2000, 2400)
_GREGORIAN_DAYS = 146097


class InvalidSchedule(ValueError):
    """The expression or the zone is not one that can be carried out. str() says what is wrong."""


class _Field(NamedTuple):
    name: str
    low: int
    high: int


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12),
    _Field("day of week", 0, 7),
)


class Cron(msgspec.Struct, frozen=True):
    """A parsed expression, with its `text` and the same with its hours `named`. `weekdays` counts from Sunday as 0."""

    text: str
    named: str
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool  # both day fields are restricted: one match is enough

    def fires_on(self, day: date) -> bool:
        """Whether the schedule fires on this local date."""
        if day.month not in self.months:
            return False
        by_day, by_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return (by_day or by_weekday) if self.either_day else (by_day and by_weekday)


def parse_cron(text: str) -> Cron:
    """Parse an expression. Raises InvalidSchedule when it leaves the form or may stay silent for over 366 days."""
    parts = text.split(" ")
    if len(parts) != len(_FIELDS):
        raise InvalidSchedule("A schedule has five fields separated by single spaces.")
    if not _is_number(parts[0]):
        raise InvalidSchedule("The minute is a single number.")
    _, hours, days, months, weekdays = (_parse_field(part, field) for part, field in zip(parts, _FIELDS, strict=True))
    cron = Cron(
        text=text,
        named=" ".join([parts[0], ",".join(map(str, sorted(hours))), *parts[2:]]),
        days=days,
        months=months,
        weekdays=frozenset(day % 7 for day in weekdays),
        either_day=not (parts[2].startswith("*") or parts[4].startswith("*")),
    )
    if _longest_gap(cron) > LONGEST_GAP_DAYS:
        raise InvalidSchedule("The schedule must fire at least once in any 366 days.")
    return cron


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 2  # noqa: PLR2004


def _parse_field(text: str, field: _Field) -> frozenset[int]:
    """Values of one field: a list of `*`, numbers and ranges, the first and last with an optional step."""
    values: set[int] = set()
    for item in text.split(","):
        span, slash, step = item.partition("/")
        low, dash, high = span.partition("-")
        if span == "*":
            first, last = field.low, field.high
        elif _is_number(low) and (_is_number(high) if dash else not slash):
            first, last = int(low), int(high if dash else low)
        else:
            raise InvalidSchedule(f"The {field.name} is made of numbers, '*', lists, ranges and steps only.")
        stride = 1
        if slash:
            if not _is_number(step) or not 1 <= int(step) <= field.high:
                raise InvalidSchedule(f"The step of the {field.name} is between 1 and {field.high}.")
            stride = int(step)
        if not field.low <= first <= last <= field.high:
            raise InvalidSchedule(f"The {field.name} lies between {field.low} and {field.high}, in rising order.")
        values.update(range(first, last + 1, stride))
    return frozenset(values)


def _longest_gap(cron: Cron) -> int:
    """Days of the longest silence in the 400 years after which the calendar repeats."""
    edges = {kind: _edges_of_year(cron, year) for kind, year in _YEAR_KINDS.items()}
    spans = [
        (date(year, 1, 1).toordinal() + edge[0], date(year, 1, 1).toordinal() + edge[1])
        for year in _GREGORIAN_CYCLE
        if (edge := edges[_kind_of_year(year)])
    ]
    if not spans:
        return LONGEST_GAP_DAYS + 1
    following = [*(first for first, _ in spans[1:]), spans[0][0] + _GREGORIAN_DAYS]
    return max(first - last for first, (_, last) in zip(following, spans, strict=True))


def _edges_of_year(cron: Cron, year: int) -> tuple[int, int] | None:
    """Offsets from 1 January of the first and the last day that match."""
    start = date(year, 1, 1)
    matches = [offset for offset in range(_kind_of_year(year)[1]) if cron.fires_on(start + offset * _DAY)]
    return (matches[0], matches[-1]) if matches else None


def _kind_of_year(year: int) -> tuple[int, int]:
    """First weekday and length: two years that share both have the same calendar."""
    start = date(year, 1, 1)
    return start.weekday(), (date(year + 1, 1, 1) - start).days


_YEAR_KINDS = {_kind_of_year(year): year for year in range(2000, 2028)}


@cache
def known_zones() -> frozenset[str]:
    """Every IANA zone name that a schedule may use."""
    return frozenset(files("tzdata").joinpath("zones").read_text(encoding="utf-8").split())


@cache
def zone(name: str) -> ZoneInfo:
    """Zone of an IANA name. Raises InvalidSchedule for any other text."""
    if name not in known_zones():
        raise InvalidSchedule("The time zone is not an IANA name.")
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as source:
        return ZoneInfo.from_file(source, key=name)


def firings(cron: Cron, timezone: str, start: int) -> Iterator[int]:
    """Yield firing instants after `start`, rising. Epoch seconds in and out."""
    newest = start
    text = cron.named if timezone in _HALF_HOURS else cron.text
    for moment in CronSim(text, datetime.fromtimestamp(start - _MARGIN, zone(timezone))):
        instant = int(moment.timestamp())
        if instant > newest:  # Two local minutes may lead to one instant.
            newest = instant
            yield instant


def next_firing(cron: Cron, timezone: str, after: int) -> int:
    """First slot later than `after`. Epoch seconds in and out."""
    return next(firings(cron, timezone, after))


def latest_firing(cron: Cron, timezone: str, at: int) -> int:
    """Last slot not later than `at`. Epoch seconds in and out.

    A search backwards leads near to it. The slots themselves are always those of the search forwards.
    """
    backwards = CronSim(cron.text, datetime.fromtimestamp(at + 1, zone(timezone)), reverse=True)
    for near in backwards:
        slots = takewhile(lambda slot: slot <= at, firings(cron, timezone, int(near.timestamp()) - _MARGIN))
        if found := deque(slots, maxlen=1):
            return found[0]
    raise InvalidSchedule("The schedule has never fired.")
