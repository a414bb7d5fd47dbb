"""How an account stands in a month: what it has sent, by the plan that it has (R-BILL-01, G-071)."""

from __future__ import annotations

from collections.abc import Mapping

from service.billing.plans import held_by
from service.billing.quota import AccountStanding, Month, standing_of
from service.billing.reads import account_usage
from service.eventstore.store import EventStore
from service.settingvalues import Plan


async def standing_in(
    store: EventStore, plans: Mapping[str, Plan], account_id: str, month: Month, now: int
) -> AccountStanding:
    """Read and judge an account's month by the plan that it has now; `now` in epoch seconds."""
    days = await account_usage(store, account_id, month.start, month.last_day)
    held = await held_by(store, plans, account_id)
    return standing_of(month, days, held.plan, plans[held.plan], now)
