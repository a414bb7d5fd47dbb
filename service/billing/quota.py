"""Months, caps, and when an account is told of them (R-BILL-01, R-BILL-11, G-070 to G-072). Pure.

Nothing is remembered of what was told: that an account came near its cap for the first time in a month is what its
days say, so that every process and every repetition gives the same answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from schemas.billing.usage import QuotaState
from service.billing.reads import DayUsage
from service.eventstore.connect.clock import DAY

NEAR_PERCENT: Final = 80
OVER_PERCENT: Final = 100
_DECEMBER: Final = 12


class Month(NamedTuple):
    """A UTC calendar month: its first second and that of the next one, in epoch seconds."""

    name: str
    start: int
    end: int

    @property
    def last_day(self) -> int:
        """Epoch of the last day's midnight."""
        return self.end - DAY


class UsageSum(NamedTuple):
    """Sums over days; `errors` counts every log event."""

    errors: int
    analytics: int
    deploys: int

    @property
    def events(self) -> int:
        """All of them together: what a cap counts (R-BILL-03)."""
        return sum(self)


class Allowance(NamedTuple):
    """What an account may use, by the name of its plan. `self_hosted` has neither cap nor price (G-203)."""

    plan: str
    cap: int | None
    retention_days: int
    price_cents: int | None


class AccountStanding(NamedTuple):
    """An account in a month, against the cap of its plan. Without a cap it is never near one, so never locked.

    `current` says whether the month is the present one: no other locks anything. `notify` says whether a person
    should hear of it now: over the cap always, near it on the UTC day on which that came about (G-072).
    """

    month: Month
    allowance: Allowance
    total: UsageSum
    current: bool
    notify: bool

    @property
    def percent(self) -> int | None:
        """Whole percent of the cap, rounded down. None without a cap."""
        cap = self.allowance.cap
        return None if cap is None else self.total.events * 100 // cap

    @property
    def near(self) -> bool:
        """Whether four fifths of the cap are used."""
        return self._reached(NEAR_PERCENT)

    @property
    def over(self) -> bool:
        """Whether the cap is used up."""
        return self._reached(OVER_PERCENT)

    @property
    def locked(self) -> bool:
        """Whether reads of raw data are closed: in the present month alone."""
        return self.over and self.current

    @property
    def state(self) -> QuotaState:
        """How the account stands, in the words of the wire."""
        if self.over:
            return "over"
        return "near" if self.near else "ok"

    def _reached(self, share: int) -> bool:
        percent = self.percent
        return percent is not None and percent >= share


def month_of(now: int) -> Month:
    """The month that a moment in epoch seconds lies in."""
    moment = datetime.fromtimestamp(now, UTC)
    return _month(moment.year, moment.month)


def month_named(name: str, now: int) -> Month | None:
    """The month YYYY-MM of well-formed text; None for one that has not begun, or before the epoch."""
    year, number = int(name[:4]), int(name[5:])
    if not datetime.fromtimestamp(0, UTC).year <= year <= datetime.fromtimestamp(now, UTC).year:
        return None
    month = _month(year, number)
    return month if month.start <= now else None


def _month(year: int, number: int) -> Month:
    start = datetime(year, number, 1, tzinfo=UTC)
    after = datetime(year + number // _DECEMBER, number % _DECEMBER + 1, 1, tzinfo=UTC)
    return Month(f"{start:%Y-%m}", int(start.timestamp()), int(after.timestamp()))


def total_of(days: Sequence[DayUsage]) -> UsageSum:
    """Add days up."""
    return UsageSum(*(sum(day[column] for day in days) for column in (1, 2, 3)))


def standing_of(month: Month, days: Sequence[DayUsage], allowance: Allowance, now: int) -> AccountStanding:
    """Judge the days of a month, oldest first, by what the account may use; `now` in epoch seconds."""
    total, before = total_of(days), total_of([day for day in days if day.day < now - now % DAY])
    standing = AccountStanding(
        month=month,
        allowance=allowance,
        total=total,
        current=month.start <= now < month.end,
        notify=False,
    )
    came_near_today = standing.near and not standing._replace(total=before).near
    return standing._replace(notify=standing.current and (standing.over or came_near_today))
