"""What an account has used, by month and by day (R-BILL-01 to R-BILL-04)."""

from __future__ import annotations

from schemas.billing.usage import HistoryQuery, Usage, UsageHistory, UsageQuery
from service.auth.refusals import InvalidPayload
from service.billing import show
from service.billing.quota import month_named, month_of
from service.billing.reads import account_usage
from service.billing.standing import standing_in
from service.eventstore.clock import DAY
from service.eventstore.commands import Answer
from service.http.edge import groups
from service.http.edge.call import Call
from service.http.edge.operations import KEY


@groups.USAGE_BILLING.operation(
    method="GET",
    path="/v1/usage",
    operation_id="get_usage",
    summary="Read what one's account has used in a month",
    principals=KEY,
    responses={200: Usage},
)
async def get_usage(call: Call[None, UsageQuery]) -> Answer:
    """Show what the account's projects have sent, and how that stands against its plan."""
    store = call.services.store
    now = await store.now()
    month = month_of(now) if call.query.period is None else month_named(call.query.period, now)
    if month is None:
        raise InvalidPayload("There is no such period yet.", invalid=[("period", "must be a month that has begun")])
    standing = await standing_in(store, call.services.settings.plans, call.user_id, month, now)
    return Answer(200, show.usage(standing))


@groups.USAGE_BILLING.operation(
    method="GET",
    path="/v1/usage/history",
    operation_id="get_usage_history",
    summary="Read what one's account has used day by day",
    principals=KEY,
    responses={200: UsageHistory},
)
async def get_usage_history(call: Call[None, HistoryQuery]) -> Answer:
    """Show the last days, those on which nothing came included."""
    now = await call.services.store.now()
    today, days = now - now % DAY, call.query.days
    found = await account_usage(call.services.store, call.user_id, today - (days - 1) * DAY, today)
    return Answer(200, show.history(days, today, found))


ENDPOINTS = [get_usage, get_usage_history]
