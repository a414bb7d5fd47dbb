"""Wire contracts of usage and payments."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from schemas.kernel import patterns
from schemas.kernel.shape import Closed, Epoch

# Wire contracts of an account's usage and of the notice about its quota (R-BILL-02 to R-BILL-04, G-070).

Count = Annotated[int, Meta(ge=0)]
Capped = Count | UnsetType
"""A number that is left out where the plan has no cap (G-203)."""
Period = Annotated[
    str,
    Meta(
        min_length=7,
        max_length=7,
        pattern=patterns.CALENDAR_MONTH,
        description="A calendar month in UTC, as YYYY-MM.",
    ),
]
QuotaState = Literal["ok", "near", "over"]


class UsageQuery(msgspec.Struct, frozen=True):
    """The month that is asked for; by default the present one."""

    period: Period | None = None


class HistoryQuery(msgspec.Struct, frozen=True):
    """How many days to go back, the present one included."""

    days: Annotated[int, Meta(ge=1, le=365)] = 30


class Breakdown(msgspec.Struct, frozen=True, kw_only=True):
    """The accepted records by kind. `errors` counts every log event."""

    errors: Count
    analytics: Count
    deploys: Count


class Quota(msgspec.Struct, frozen=True, kw_only=True):
    """The usage of an account against the cap of its plan in a month. `pct` is rounded down and may exceed 100.

    The plan `self_hosted` has no cap, so `cap`, `remaining` and `pct` are left out.
    `locked` closes the few operations that answer 402, in the present month alone. A later month begins at `resets_at`.
    """

    state: QuotaState
    locked: bool
    used: Count
    cap: Capped = UNSET
    remaining: Capped = UNSET
    pct: Capped = UNSET
    resets_at: Epoch


class UpgradeOperation(msgspec.Struct, frozen=True, kw_only=True):
    """The operation to subscribe with. Only that operation returns a link for the account (R-BILL-07)."""

    method: Literal["POST"] = "POST"
    path: Literal["/v1/billing/checkout"] = "/v1/billing/checkout"


class Upgrade(msgspec.Struct, frozen=True, kw_only=True):
    """The next larger plan, if this installation sells one."""

    available: bool
    recommended_plan: str | None
    operation: UpgradeOperation


class NoticePayload(msgspec.Struct, frozen=True, kw_only=True):
    """A message that a client may show unchanged."""

    kind: Literal["quota_near", "quota_over"]
    period: Period
    plan: str
    used: Count
    cap: Count
    pct: Count
    resets_at: Epoch


class BillingNotice(msgspec.Struct, frozen=True, kw_only=True):
    """Present when the account is near or over its quota (R-BILL-11, R-BILL-12)."""

    should_notify_human: bool
    message_for_human: str
    client_payload: NoticePayload


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """The usage of an account's projects in a month, including deleted projects.

    The plan `self_hosted` has no cap, so `monthly_event_cap` and `pct_of_plan` are left out.
    """

    period: Period
    plan: str
    plan_name: str
    total_events: Count
    breakdown: Breakdown
    monthly_event_cap: Capped = UNSET
    retention_days: Count
    pct_of_plan: Capped = UNSET
    quota: Quota
    upgrade: Upgrade
    next_action: str


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One UTC day of an account. `date` is its midnight."""

    date: Epoch
    total_events: Count
    errors: Count
    analytics: Count
    deploys: Count


class UsageHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The last days of an account, oldest first, including days without data."""

    days: Annotated[int, Meta(ge=1, le=365)]
    snapshots: list[Snapshot]
    next_action: str


# Wire contracts of billing: status, checkout, portal, and the answer to the payment provider (R-BILL-05 to -09).

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
