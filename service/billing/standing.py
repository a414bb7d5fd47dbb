"""How an account stands in a month: what it has sent, by the plan that it has (R-BILL-01, G-071)."""

from __future__ import annotations

from service.billing.plans import days_of_account, held_by
from service.billing.quota import AccountStanding, Allowance, Month, standing_of
from service.billing.reads import account_usage
from service.eventstore.store import EventStore
from service.settingvalues import SELF_HOSTED, Terms


async def standing_in(store: EventStore, terms: Terms, account_id: str, month: Month, now: int) -> AccountStanding:
    """Read and judge an account's month by the plan that it has now; `now` in epoch seconds."""
    days = await account_usage(store, account_id, month.start, month.last_day)
    if terms.self_hosted:
        unbounded = Allowance(SELF_HOSTED, None, await days_of_account(store, terms, account_id), None)
        return standing_of(month, days, unbounded, now)
    held = await held_by(store, terms, account_id)
    plan = terms.plans[held.plan]
    return standing_of(month, days, Allowance(held.plan, plan.events, plan.retention_days, plan.price_cents), now)
