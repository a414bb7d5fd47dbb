"""The plan of an account: what its subscriptions entitle it to (R-BILL-10, G-071)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, get_args

from projections.billing.subscription import SUBSCRIPTIONS, SubscriptionRow
from schemas.billing.payment import BillingWord, PaidPlan
from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.store import EventStore
from service.settingvalues import FREE_PLAN, Plan
from statemachines.billing.subscription import Status

MOST = 200
"""Subscriptions of an account that are looked at, the latest ones: years of buying and leaving."""
SOLD: Final[tuple[PaidPlan, ...]] = get_args(PaidPlan)
"""The plans that checkout takes; an operator may have others, which he gives to accounts himself."""
_LATEST = "t.created_at desc, t.id"
LIVE = frozenset({Status.ACTIVE.value, Status.PAST_DUE.value})
"""Of these the plan holds: what is due may still come (G-073)."""
_KEEPING = LIVE | {Status.SUSPENDED.value}
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


async def held_by(store: EventStore, plans: Mapping[str, Plan], account_id: str) -> Held:
    """Read what an account has."""
    rows = await store.find(SUBSCRIPTIONS, "t.project_id = %s", account_id, order_by=_LATEST, limit=MOST)
    return held_of(rows, plans)


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


async def retention(store: EventStore, plans: Mapping[str, Plan]) -> Retention:
    """Read how long telemetry is kept, by the plans of the accounts that pay for it (G-071).

    While a subscription is suspended, what it kept stays kept: only its end lets it go.
    """
    held: dict[str, int] = {}
    for row in await store.find(SUBSCRIPTIONS, "t.status = any(%s)", list(_KEEPING)):
        if row.plan in plans:
            held[row.project_id] = max(held.get(row.project_id, 0), plans[row.plan].retention_days)
    free = plans[FREE_PLAN].retention_days
    payers = {str(project): str(account) for project, account in await store.fetch(_PAYERS)}
    days = {project: held.get(account, free) for project, account in payers.items()}
    return Retention(days, payers, max(free, *held.values()) if held else free)


async def days_kept(store: EventStore, plans: Mapping[str, Plan], project_id: str) -> int:
    """Read how many days the telemetry of one project is kept, by the same rule."""
    found = await store.fetch(_PLANS_OF_PROJECT, project_id=project_id, keeping=sorted(_KEEPING))
    days = [plans[plan].retention_days for (plan,) in found if plan in plans]
    return max(days, default=plans[FREE_PLAN].retention_days)


def larger_plan(plans: Mapping[str, Plan], name: str) -> str | None:
    """The next plan with a larger cap than the named one's that anybody can subscribe to; None for the largest."""
    larger = [(plans[other].events, other) for other in SOLD if plans[other].events > plans[name].events]
    return min(larger)[1] if larger else None
