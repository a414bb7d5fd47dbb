"""Wire contracts of billing: status, checkout, portal, and the answer to the payment provider (R-BILL-05 to -09)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta

from schemas.billing.usage import Breakdown, Capped, Count, Period, Quota, Upgrade
from schemas.kernel.shape import Closed, Epoch

Address = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=2000,
        description="An https address, or http on the local machine, to send the browser to.",
    ),
]
PaidPlan = Literal["pro", "scale"]
BillingWord = Literal["none", "active", "past_due", "canceled"]


class CheckoutRequest(Closed, frozen=True, kw_only=True):
    """The plan to subscribe to, and the address to return to."""

    plan: PaidPlan
    success_url: Address | None = None
    cancel_url: Address | None = None


class CheckoutStarted(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the payment provider, for the account holder alone (R-BILL-07)."""

    checkout_url: str
    session_id: str
    plan: PaidPlan
    price_id: str
    next_action: str


class PortalRequest(Closed, frozen=True, kw_only=True):
    """The address to return to."""

    return_url: Address | None = None


class PortalStarted(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the payment provider to change or cancel the subscription."""

    url: str
    session_id: str
    next_action: str


class NotificationTaken(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a notification. `plan` and `billing_status` are the account's now."""

    received: Literal[True] = True
    handled: bool
    event_id: str | None
    event_type: str | None
    user_id: str | None
    plan: str | None
    billing_status: BillingWord | None
    next_action: str


class BillingState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of payment. `current_period_end` is null until the provider reports it."""

    status: BillingWord
    current_period_end: Epoch | None


class UsageTotal(msgspec.Struct, frozen=True, kw_only=True):
    """The accepted records of the month."""

    total_events: Count
    breakdown: Breakdown


class BillingStatus(msgspec.Struct, frozen=True, kw_only=True):
    """An account's plan, payment, use and quota (R-BILL-05).

    The plan `self_hosted` has neither price nor cap, so both are left out.
    """

    user_id: str
    period: Period
    plan: str
    plan_name: str
    price_cents: Capped = UNSET
    monthly_event_cap: Capped = UNSET
    retention_days: Count
    billing: BillingState
    usage: UsageTotal
    quota: Quota
    upgrade: Upgrade
    next_action: str
