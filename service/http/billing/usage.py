"""What an account has used, by month and by day and what it has (R-BILL-01 to R-BILL-05)."""

from __future__ import annotations

from schemas.billing import BillingStatus, HistoryQuery, Upgrade, Usage, UsageHistory, UsageQuery
from service.auth.refusals import InvalidPayload
from service.billing import usage
from service.billing.plans import AccountStanding, account_usage, held_by, larger_plan, month_named, month_of
from service.billing.usage import standing_in
from service.eventstore.connect.facts import DAY
from service.eventstore.declare.commands import Answer
from service.http.edge.declare import groups
from service.http.edge.declare.call import Call
from service.http.edge.declare.endpoint import Docs, Who
from service.http.edge.declare.operations import KEY


@groups.USAGE_BILLING.get("/v1/usage", "Read the usage of your account in a month")
@Who(KEY)
@Docs(Usage)
async def get_usage(call: Call[None, UsageQuery]) -> Answer:
    """Show what the account's projects have sent, and how that stands against its plan."""
    standing = await _standing(call)
    return Answer(200, usage.usage(standing, _upgrade(call, standing)))


@groups.USAGE_BILLING.get("/v1/billing/status", "Read the plan, payment and quota of your account")
@Who(KEY)
@Docs(BillingStatus)
async def get_billing_status(call: Call[None, UsageQuery]) -> Answer:
    """Show what the account has, how its payment stands, and how a month stands against its plan (R-BILL-05)."""
    terms, sold = call.services.settings.terms, call.services.payments.configured
    standing, held = await _standing(call), await held_by(call.services.store, terms, call.user_id)
    return Answer(200, usage.status(call.user_id, standing, held, _upgrade(call, standing), sold=sold))


async def _standing(call: Call[None, UsageQuery]) -> AccountStanding:
    """Judge the month that is asked for. Raises InvalidPayload for one that has not begun."""
    store = call.services.store
    now = await store.now()
    month = month_of(now) if call.query.period is None else month_named(call.query.period, now)
    if month is None:
        raise InvalidPayload("There is no such period yet.", invalid=[("period", "must be a month that has begun")])
    return await standing_in(store, call.services.settings.terms, call.user_id, month, now)


def _upgrade(call: Call[None, UsageQuery], standing: AccountStanding) -> Upgrade:
    larger = larger_plan(call.services.settings.terms, standing.allowance.plan)
    return usage.upgrade(larger, sold=call.services.payments.configured)


@groups.USAGE_BILLING.get("/v1/usage/history", "Read the usage of your account by day")
@Who(KEY)
@Docs(UsageHistory)
async def get_usage_history(call: Call[None, HistoryQuery]) -> Answer:
    """Show the last days, those on which nothing came included."""
    now = await call.services.store.now()
    today, days = now - now % DAY, call.query.days
    found = await account_usage(call.services.store, call.user_id, today - (days - 1) * DAY, today)
    return Answer(200, usage.history(days, today, found))


ENDPOINTS = [get_usage, get_usage_history, get_billing_status]
