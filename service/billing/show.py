"""Usage and quota on the wire and payments on the wire (R-BILL-02 to R-BILL-09, R-BILL-11, R-BILL-12)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from schemas.billing.payment import (
    BillingState,
    BillingStatus,
    CheckoutStarted,
    NotificationTaken,
    PaidPlan,
    PortalStarted,
    UsageTotal,
)
from schemas.billing.usage import (
    BillingNotice,
    Breakdown,
    NoticePayload,
    Quota,
    QuotaState,
    Snapshot,
    Upgrade,
    UpgradeOperation,
    Usage,
    UsageHistory,
)
from service.billing.payments import Page
from service.billing.plans import Held
from service.billing.quota import AccountStanding, UsageSum
from service.billing.reads import DayUsage
from service.eventstore.connect.clock import DAY

_ADVICE: Mapping[QuotaState, str] = {
    "ok": "Nothing to do: usage is well within the plan.",
    "near": "Tell the account holder that usage is close to the cap of the plan.",
    "over": "Tell the account holder that the cap is used up. The service still accepts events.",
}
_UNBOUNDED = "Nothing to do: this installation has no cap."
_DUE = "Tell the account holder that a payment is due"
_PORTAL = "; POST /v1/billing/portal lets you fix it."
_MOST_TEXT = 255


def usage(standing: AccountStanding, upgrade: Upgrade) -> Usage:
    """What an account has used in a month, and how that stands against its plan."""
    total = standing.total
    allowance = standing.allowance
    return Usage(
        period=standing.month.name,
        plan=allowance.plan,
        plan_name=_named(allowance.plan),
        total_events=total.events,
        breakdown=_breakdown(total),
        monthly_event_cap=_given(allowance.cap),
        retention_days=allowance.retention_days,
        pct_of_plan=_given(standing.percent),
        quota=_quota(standing),
        upgrade=upgrade,
        next_action=_advice(standing),
    )


def history(days: int, today: int, found: Sequence[DayUsage]) -> UsageHistory:
    """The last `days` days up to the one that began at `today`, with those on which nothing came."""
    by_day = {day.day: day for day in found}
    wanted = range(today - (days - 1) * DAY, today + DAY, DAY)
    snapshots = [_snapshot(by_day.get(day, DayUsage(day, 0, 0, 0))) for day in wanted]
    return UsageHistory(
        days=days, snapshots=snapshots, next_action="Read /v1/usage for the month and the cap of the plan."
    )


def notice(standing: AccountStanding) -> BillingNotice | None:
    """What to say beside other answers; None while usage is well within the plan."""
    plan, cap, percent = standing.allowance.plan, standing.allowance.cap, standing.percent
    if cap is None or percent is None or not (standing.current and standing.near):
        return None
    used = f"{standing.total.events:,}"
    said = f"The account has used {used} of the {cap:,} events of its plan this month."
    if standing.over:
        said += " The service accepts more, but the plan no longer covers them."
    return BillingNotice(
        should_notify_human=standing.notify,
        message_for_human=said,
        client_payload=NoticePayload(
            kind="quota_over" if standing.over else "quota_near",
            period=standing.month.name,
            plan=plan,
            used=standing.total.events,
            cap=cap,
            pct=percent,
            resets_at=standing.month.end,
        ),
    )


def upgrade(larger: str | None, *, sold: bool) -> Upgrade:
    """The next larger plan; `sold` says whether this installation can sell anything. No link of anybody (R-BILL-07)."""
    return Upgrade(available=sold and larger is not None, recommended_plan=larger, operation=UpgradeOperation())


def status(user_id: str, standing: AccountStanding, held: Held, offer: Upgrade, *, sold: bool) -> BillingStatus:
    """An account's plan and payment, and how a month stands against it; `sold` as for `upgrade`."""
    due = _DUE + (_PORTAL if sold else ".")
    allowance = standing.allowance
    return BillingStatus(
        user_id=user_id,
        period=standing.month.name,
        plan=allowance.plan,
        plan_name=_named(allowance.plan),
        price_cents=_given(allowance.price_cents),
        monthly_event_cap=_given(allowance.cap),
        retention_days=allowance.retention_days,
        billing=BillingState(status=held.status, current_period_end=held.current_period_end),
        usage=UsageTotal(total_events=standing.total.events, breakdown=_breakdown(standing.total)),
        quota=_quota(standing),
        upgrade=offer,
        next_action=due if held.status == "past_due" else _advice(standing),
    )


def checkout(plan: PaidPlan, page: Page) -> CheckoutStarted:
    """Where a person subscribes."""
    return CheckoutStarted(
        checkout_url=page.url,
        session_id=page.session_id,
        plan=plan,
        price_id=page.price_id,
        next_action=("Show the link to the account holder, and read /v1/billing/status once they have paid."),
    )


def portal(page: Page) -> PortalStarted:
    """Where a person changes or ends a subscription."""
    return PortalStarted(
        url=page.url, session_id=page.session_id, next_action=("Show the link to the account holder alone.")
    )


def notification(body: Mapping[str, Any], user_id: str | None, held: Held | None) -> NotificationTaken:
    """What became of a notification; one about nobody's plan is `held` by nobody."""
    return NotificationTaken(
        handled=held is not None,
        event_id=_short(body.get("id")),
        event_type=_short(body.get("type")),
        user_id=user_id,
        plan=None if held is None else held.plan,
        billing_status=None if held is None else held.status,
        next_action="Nothing to do: the notification is recorded."
        if held is not None
        else "Nothing to do: the notification concerns no account of this service.",
    )


def _short(value: Any) -> str | None:
    return value if isinstance(value, str) and len(value) <= _MOST_TEXT else None


def _breakdown(total: UsageSum) -> Breakdown:
    return Breakdown(errors=total.errors, analytics=total.analytics, deploys=total.deploys)


def _named(plan: str) -> str:
    """The name of a plan for people."""
    return plan.replace("_", "-").capitalize()


def _given(value: int | None) -> int | msgspec.UnsetType:
    """A member that is left out where there is no value."""
    return msgspec.UNSET if value is None else value


def _advice(standing: AccountStanding) -> str:
    return _UNBOUNDED if standing.allowance.cap is None else _ADVICE[standing.state]


def _quota(standing: AccountStanding) -> Quota:
    used, cap = standing.total.events, standing.allowance.cap
    return Quota(
        state=standing.state,
        locked=standing.locked,
        used=used,
        cap=_given(cap),
        remaining=_given(None if cap is None else max(0, cap - used)),
        pct=_given(standing.percent),
        resets_at=standing.month.end,
    )


def _snapshot(day: DayUsage) -> Snapshot:
    return Snapshot(
        date=day.day,
        total_events=day.errors + day.analytics + day.deploys,
        errors=day.errors,
        analytics=day.analytics,
        deploys=day.deploys,
    )
