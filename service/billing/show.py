"""Usage and quota on the wire (R-BILL-02 to R-BILL-04, R-BILL-11, R-BILL-12)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from schemas.billing.usage import (
    BillingNotice,
    Breakdown,
    NoticePayload,
    Quota,
    QuotaState,
    Snapshot,
    Usage,
    UsageHistory,
)
from service.billing.quota import Standing
from service.billing.reads import DayUsage
from service.eventstore.clock import DAY

_ADVICE: Mapping[QuotaState, str] = {
    "ok": "Nothing to do: usage is well within the plan.",
    "near": "Tell the account's person that usage comes near the cap of the plan.",
    "over": "Tell the account's person that the cap is used up. More events are taken in all the same.",
}


def usage(standing: Standing) -> Usage:
    """What an account has used in a month, and how that stands against its plan."""
    total = standing.total
    return Usage(
        period=standing.month.name,
        plan=standing.plan,
        plan_name=standing.plan.capitalize(),
        total_events=total.events,
        breakdown=Breakdown(errors=total.errors, analytics=total.analytics, deploys=total.deploys),
        monthly_event_cap=standing.cap,
        retention_days=standing.retention_days,
        pct_of_plan=standing.percent,
        quota=_quota(standing),
        next_action=_ADVICE[standing.state],
    )


def history(days: int, today: int, found: Sequence[DayUsage]) -> UsageHistory:
    """The last `days` days up to the one that began at `today`, with those on which nothing came."""
    by_day = {day.day: day for day in found}
    wanted = range(today - (days - 1) * DAY, today + DAY, DAY)
    snapshots = [_snapshot(by_day.get(day, DayUsage(day, 0, 0, 0))) for day in wanted]
    return UsageHistory(
        days=days, snapshots=snapshots, next_action="Read /v1/usage for the month and the cap of the plan."
    )


def notice(standing: Standing) -> BillingNotice | None:
    """What to say beside other answers; None while usage is well within the plan."""
    if not (standing.current and standing.near):
        return None
    used, cap = f"{standing.total.events:,}", f"{standing.cap:,}"
    said = f"The account has used {used} of the {cap} events of its plan this month."
    if standing.over:
        said += " More are taken in, but the plan no longer covers them."
    return BillingNotice(
        should_notify_human=standing.notify,
        message_for_human=said,
        client_payload=NoticePayload(
            kind="quota_over" if standing.over else "quota_near",
            period=standing.month.name,
            plan=standing.plan,
            used=standing.total.events,
            cap=standing.cap,
            pct=standing.percent,
            resets_at=standing.month.end,
        ),
    )


def _quota(standing: Standing) -> Quota:
    used = standing.total.events
    return Quota(
        state=standing.state,
        locked=standing.locked,
        used=used,
        cap=standing.cap,
        remaining=max(0, standing.cap - used),
        pct=standing.percent,
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
