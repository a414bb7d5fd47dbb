"""The plan of an account: what its subscriptions entitle it to (R-BILL-10, G-071)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, get_args

from projections.billing.subscription import SUBSCRIPTIONS, SubscriptionRow
from schemas.billing.payment import BillingWord, PaidPlan
from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.store import EventStore
from service.settingvalues import FREE_PLAN, SELF_HOSTED, Plan, Terms
from statemachines.billing.subscription import Status

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
BEFORE_SELF_HOSTED = load_sql("billing", "before_self_hosted")
_PAYERS = load_sql("billing", "payers")
_PLANS_OF_PROJECT = load_sql("billing", "plans_of_project")
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
