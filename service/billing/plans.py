"""The plan of an account, its quota, and the usage against it (R-BILL-10, G-071)."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple, get_args

from projections.billing import SUBSCRIPTIONS, SubscriptionRow
from schemas.billing import BillingWord, PaidPlan, QuotaState
from service.eventstore.connect.facts import DAY
from service.eventstore.store import EventStore
from service.settingvalues import FREE_PLAN, SELF_HOSTED, Plan, Terms
from service.sql import load_query
from statemachines.billing import Status

# The plan of an account: what its subscriptions entitle it to (R-BILL-10, G-071).

MOST = 200
"""Subscriptions of an account that are looked at, the latest ones: years of buying and leaving."""
SOLD: Final[tuple[PaidPlan, ...]] = get_args(PaidPlan)
"""The plans that checkout takes; an operator may have others, which he gives to accounts himself."""
_LATEST = "t.created_at desc, t.id"
LIVE = frozenset({Status.ACTIVE.value, Status.PAST_DUE.value})
"""Of these the plan holds: what is due may still come (G-073)."""
_KEEPING = LIVE | {Status.SUSPENDED.value}
SELF_HOSTED_DAYS: Final = 90
"""Retention of an installation that began with the plan `self_hosted`, unless it is set."""
BEFORE_SELF_HOSTED = load_query("billing", "before_self_hosted")
_PAYERS = load_query("billing", "payers")
_PLANS_OF_PROJECT = load_query("billing", "plans_of_project")
_WORDS: Mapping[str, BillingWord] = {
    Status.ACTIVE.value: "active",
    Status.PAST_DUE.value: "past_due",
    Status.SUSPENDED.value: "past_due",
    Status.CANCELED.value: "canceled",
}
_ORDER = tuple(_WORDS)


class Held(NamedTuple):
    """What an account has: its plan, how its payment stands, and who it is at the provider, if anybody."""

    plan: str
    status: BillingWord
    current_period_end: int | None
    customer_id: str | None


class Retention(NamedTuple):
    """How many days telemetry is kept: by active project, with the account that pays for each.

    `longest` is how long it is kept for anybody, whose project is being deleted included.
    """

    days: Mapping[str, int]
    payers: Mapping[str, str]
    longest: int


async def held_by(store: EventStore, terms: Terms, account_id: str) -> Held:
    """Read what an account has. `self_hosted` stands in place of its plan where nothing is sold (G-203)."""
    rows = await store.find(SUBSCRIPTIONS, "t.project_id = %s", account_id, order_by=_LATEST, limit=MOST)
    held = held_of(rows, terms.plans)
    return held._replace(plan=SELF_HOSTED) if terms.self_hosted else held


def held_of(rows: Sequence[SubscriptionRow], plans: Mapping[str, Plan]) -> Held:
    """Judge an account's subscriptions, the latest first: the largest plan that is paid for, else the free one."""
    customer = rows[0].customer_id if rows else None
    live = [row for row in rows if row.status in LIVE and row.plan in plans]
    if live:
        best = max(live, key=lambda row: plans[row.plan].events)
        return Held(best.plan, _WORDS[best.status], best.current_period_end, best.customer_id)
    statuses = {row.status for row in rows}
    word = next((_WORDS[status] for status in _ORDER if status in statuses), None)
    return Held(FREE_PLAN, word or "none", None, customer)


async def unended(store: EventStore, account_id: str) -> list[SubscriptionRow]:
    """Read the subscriptions of an account that somebody may still be asked to pay for."""
    return await store.find(SUBSCRIPTIONS, "t.project_id = %s and t.status <> 'canceled'", account_id, limit=MOST)


async def retention(store: EventStore, terms: Terms) -> Retention:
    """Read how long telemetry is kept, by the plans of the accounts that pay for it (G-071, G-203).

    While a subscription is suspended, what it kept stays kept: only its end lets it go. The same holds where a payment
    provider is configured no more: a missing setting must not delete what was paid for. `SERVICE_RETENTION_DAYS` alone
    overrides it.
    """
    fixed, rows = _fixed_days(terms), await store.find(SUBSCRIPTIONS, "t.status = any(%s)", list(_KEEPING))
    held: dict[str, int] = {}
    for row in rows if fixed is None else ():
        if row.plan in terms.plans:
            held[row.project_id] = max(held.get(row.project_id, 0), terms.plans[row.plan].retention_days)
    least = await _least_days(store, terms)
    payers = {str(project): str(account) for project, account in await store.fetch(_PAYERS)}
    days = {project: held.get(account, least) for project, account in payers.items()}
    return Retention(days, payers, max(least, *held.values()) if held else least)


async def days_kept(store: EventStore, terms: Terms, project_id: str) -> int:
    """Read how many days the telemetry of one project is kept, by the same rule."""
    fixed = _fixed_days(terms)
    if fixed is not None:
        return fixed
    found = await store.fetch(_PLANS_OF_PROJECT, project_id=project_id, keeping=sorted(_KEEPING))
    return await _days_of(store, terms, [plan for (plan,) in found])


async def days_of_account(store: EventStore, terms: Terms, account_id: str) -> int:
    """Read how many days the telemetry of an account's projects is kept, by the same rule."""
    fixed = _fixed_days(terms)
    if fixed is not None:
        return fixed
    where = "t.project_id = %s and t.status = any(%s)"
    rows = await store.find(SUBSCRIPTIONS, where, account_id, list(_KEEPING), order_by=_LATEST, limit=MOST)
    return await _days_of(store, terms, [row.plan for row in rows])


async def _days_of(store: EventStore, terms: Terms, names: Sequence[str]) -> int:
    days = [terms.plans[name].retention_days for name in names if name in terms.plans]
    return max(days) if days else await _least_days(store, terms)


def _fixed_days(terms: Terms) -> int | None:
    """Days that hold for every account. None where they depend on it."""
    return terms.retention_days if terms.self_hosted else None


async def _least_days(store: EventStore, terms: Terms) -> int:
    """Read the days of an account without a subscription."""
    [[older]] = await store.fetch(BEFORE_SELF_HOSTED) if terms.self_hosted else [[True]]
    return unsubscribed_days(terms, older=older)


def unsubscribed_days(terms: Terms, *, older: bool) -> int:
    """The days of an account without a subscription; `older`: the installation is older than the plan `self_hosted`.

    There an account keeps what it had.
    """
    fixed = _fixed_days(terms)
    if fixed is not None:
        return fixed
    return SELF_HOSTED_DAYS if terms.self_hosted and not older else terms.plans[FREE_PLAN].retention_days


def larger_plan(terms: Terms, name: str) -> str | None:
    """The next plan with a larger cap than the named one's that anybody can subscribe to; None for the largest.

    None where nothing is sold: no plan is larger than one without a cap.
    """
    if terms.self_hosted:
        return None
    plans = terms.plans
    larger = [(plans[other].events, other) for other in SOLD if plans[other].events > plans[name].events]
    return min(larger)[1] if larger else None


# What a project and its account have sent: counted with each record, read here (R-ING-12, R-BILL-01, G-070, G-071).

_ACCOUNT = load_query("billing", "payer")
_USAGE_OF_ACCOUNT = load_query("billing", "usage_of_account")
_USAGE_OF_PROJECT = load_query("billing", "usage_of_project")
_LAST_EVENT = load_query("billing", "last_event")
_SINCE = load_query("billing", "events_since")


class DayUsage(NamedTuple):
    """Accepted records of a UTC day; `day` is the epoch of its midnight. `errors` counts every log event."""

    day: int
    errors: int
    analytics: int
    deploys: int


async def account_of(store: EventStore, project_id: str) -> str:
    """Find the account that pays for a project: its first owner. Empty for a project that is gone."""
    rows = await store.fetch(_ACCOUNT, project_id=project_id)
    return str(rows[0][0]) if rows else ""


async def account_usage(store: EventStore, account_id: str, first_day: int, last_day: int) -> list[DayUsage]:
    """Read what an account's projects have sent, deleted ones included; days without records are left out."""
    rows = await store.fetch(_USAGE_OF_ACCOUNT, id=account_id, first=first_day, last=last_day)
    return [DayUsage(*row) for row in rows]


async def project_usage(store: EventStore, project_id: str, first_day: int, last_day: int) -> list[DayUsage]:
    """Read what a project has sent; days without records are left out."""
    rows = await store.fetch(_USAGE_OF_PROJECT, id=project_id, first=first_day, last=last_day)
    return [DayUsage(*row) for row in rows]


async def last_event_received_at(store: EventStore, project_id: str) -> int | None:
    """Tell when the project's last log or analytics event was received, in epoch seconds."""
    [[at]] = await store.fetch(_LAST_EVENT, project_id=project_id)
    return None if at is None else int(at)


async def events_since(store: EventStore, project_id: str, since: int) -> int:
    """Count the log and analytics events received after a time in epoch seconds."""
    [[count]] = await store.fetch(_SINCE, project_id=project_id, since=since)
    return int(count)


# Months, caps, and when an account is told of them (R-BILL-01, R-BILL-11, G-070 to G-072). Pure. Nothing is remembered
# of what was told: that an account came near its cap for the first time in a month is what its days say, so that every
# process and every repetition gives the same answer.

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
