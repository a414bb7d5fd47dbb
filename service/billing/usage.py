"""How an account stands in a month: what it has sent, by the plan that it has (R-BILL-01, G-071)."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec
import psycopg

from schemas import billing as wire
from service.billing import plans
from service.billing.payments import Page
from service.eventstore.connect.facts import DAY
from service.eventstore.store import EventStore
from service.fairness.bounds import SHARE, Weighted
from service.fairness.turns import CommandNotDone
from service.settingvalues import SELF_HOSTED, Terms


async def standing_in(
    store: EventStore, terms: Terms, account_id: str, month: plans.Month, now: int
) -> plans.AccountStanding:
    """Read and judge an account's month by the plan that it has now; `now` in epoch seconds."""
    days = await plans.account_usage(store, account_id, month.start, month.last_day)
    if terms.self_hosted:
        unbounded = plans.Allowance(SELF_HOSTED, None, await plans.days_of_account(store, terms, account_id), None)
        return plans.standing_of(month, days, unbounded, now)
    held = await plans.held_by(store, terms, account_id)
    plan = terms.plans[held.plan]
    return plans.standing_of(
        month, days, plans.Allowance(held.plan, plan.events, plan.retention_days, plan.price_cents), now
    )


# Usage and quota on the wire and payments on the wire (R-BILL-02 to R-BILL-09, R-BILL-11, R-BILL-12).

_ADVICE: Mapping[wire.QuotaState, str] = {
    "ok": "Nothing to do: usage is well within the plan.",
    "near": "Tell the account holder that usage is close to the cap of the plan.",
    "over": "Tell the account holder that the cap is used up. The service still accepts events.",
}
_UNBOUNDED = "Nothing to do: this installation has no cap."
_DUE = "Tell the account holder that a payment is due"
_PORTAL = "; POST /v1/billing/portal lets you fix it."
_MOST_TEXT = 255


def usage(standing: plans.AccountStanding, upgrade: wire.Upgrade) -> wire.Usage:
    """What an account has used in a month, and how that stands against its plan."""
    total = standing.total
    allowance = standing.allowance
    return wire.Usage(
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


def history(days: int, today: int, found: Sequence[plans.DayUsage]) -> wire.UsageHistory:
    """The last `days` days up to the one that began at `today`, with those on which nothing came."""
    by_day = {day.day: day for day in found}
    wanted = range(today - (days - 1) * DAY, today + DAY, DAY)
    snapshots = [_snapshot(by_day.get(day, plans.DayUsage(day, 0, 0, 0))) for day in wanted]
    return wire.UsageHistory(
        days=days, snapshots=snapshots, next_action="Read /v1/usage for the month and the cap of the plan."
    )


def shown_notice(standing: plans.AccountStanding) -> wire.BillingNotice | None:
    """What to say beside other answers; None while usage is well within the plan."""
    plan, cap, percent = standing.allowance.plan, standing.allowance.cap, standing.percent
    if cap is None or percent is None or not (standing.current and standing.near):
        return None
    used = f"{standing.total.events:,}"
    said = f"The account has used {used} of the {cap:,} events of its plan this month."
    if standing.over:
        said += " The service accepts more, but the plan no longer covers them."
    return wire.BillingNotice(
        should_notify_human=standing.notify,
        message_for_human=said,
        client_payload=wire.NoticePayload(
            kind="quota_over" if standing.over else "quota_near",
            period=standing.month.name,
            plan=plan,
            used=standing.total.events,
            cap=cap,
            pct=percent,
            resets_at=standing.month.end,
        ),
    )


def upgrade(larger: str | None, *, sold: bool) -> wire.Upgrade:
    """The next larger plan; `sold` says whether this installation can sell anything. No link of anybody (R-BILL-07)."""
    return wire.Upgrade(
        available=sold and larger is not None, recommended_plan=larger, operation=wire.UpgradeOperation()
    )


def status(
    user_id: str, standing: plans.AccountStanding, held: plans.Held, offer: wire.Upgrade, *, sold: bool
) -> wire.BillingStatus:
    """An account's plan and payment, and how a month stands against it; `sold` as for `upgrade`."""
    due = _DUE + (_PORTAL if sold else ".")
    allowance = standing.allowance
    return wire.BillingStatus(
        user_id=user_id,
        period=standing.month.name,
        plan=allowance.plan,
        plan_name=_named(allowance.plan),
        price_cents=_given(allowance.price_cents),
        monthly_event_cap=_given(allowance.cap),
        retention_days=allowance.retention_days,
        billing=wire.BillingState(status=held.status, current_period_end=held.current_period_end),
        usage=wire.UsageTotal(total_events=standing.total.events, breakdown=_breakdown(standing.total)),
        quota=_quota(standing),
        upgrade=offer,
        next_action=due if held.status == "past_due" else _advice(standing),
    )


def checkout(plan: wire.PaidPlan, page: Page) -> wire.CheckoutStarted:
    """Where a person subscribes."""
    return wire.CheckoutStarted(
        checkout_url=page.url,
        session_id=page.session_id,
        plan=plan,
        price_id=page.price_id,
        next_action=("Show the link to the account holder, and read /v1/billing/status once they have paid."),
    )


def portal(page: Page) -> wire.PortalStarted:
    """Where a person changes or ends a subscription."""
    return wire.PortalStarted(
        url=page.url, session_id=page.session_id, next_action=("Show the link to the account holder alone.")
    )


def notification(body: Mapping[str, Any], user_id: str | None, held: plans.Held | None) -> wire.NotificationTaken:
    """What became of a notification; one about nobody's plan is `held` by nobody."""
    return wire.NotificationTaken(
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


def _breakdown(total: plans.UsageSum) -> wire.Breakdown:
    return wire.Breakdown(errors=total.errors, analytics=total.analytics, deploys=total.deploys)


def _named(plan: str) -> str:
    """The name of a plan for people."""
    return plan.replace("_", "-").capitalize()


def _given(value: int | None) -> int | msgspec.UnsetType:
    """A member that is left out where there is no value."""
    return msgspec.UNSET if value is None else value


def _advice(standing: plans.AccountStanding) -> str:
    return _UNBOUNDED if standing.allowance.cap is None else _ADVICE[standing.state]


def _quota(standing: plans.AccountStanding) -> wire.Quota:
    used, cap = standing.total.events, standing.allowance.cap
    return wire.Quota(
        state=standing.state,
        locked=standing.locked,
        used=used,
        cap=_given(cap),
        remaining=_given(None if cap is None else max(0, cap - used)),
        pct=_given(standing.percent),
        resets_at=standing.month.end,
    )


def _snapshot(day: plans.DayUsage) -> wire.Snapshot:
    return wire.Snapshot(
        date=day.day,
        total_events=day.errors + day.analytics + day.deploys,
        errors=day.errors,
        analytics=day.analytics,
        deploys=day.deploys,
    )


# What is said beside answers to people whose account is near or over its quota (R-BILL-11, R-BILL-12, G-072). An
# account's days, and who pays for a project, are read at most twice a minute in a process, whatever its keys ask;
# where they cannot be read, the answer goes without the notice, and unlocked, rather than later or not at all.

T = TypeVar("T")

FRESH_SECONDS: Final = 30.0
READ_SECONDS: Final = 0.5
MAX_BYTES: Final = 4 * 1024 * 1024
_ENTRY_BYTES: Final = 200  # of an account of which nothing is said


class Told(NamedTuple):
    """What an account's quota does to answers: the notice as JSON, empty while there is nothing to say, and the lock.

    `locked` closes the operations that read raw data (R-BILL-14).
    """

    notice: bytes
    locked: bool


NOTHING: Final = Told(b"", locked=False)


class Notices:
    """What is said of accounts in one process."""

    def __init__(self, store: EventStore, terms: Terms) -> None:
        self._store = store
        self._terms = terms
        self._accounts = _Recent(self._read, NOTHING, lambda told: len(told.notice))
        self._payers = _Recent(lambda project_id: plans.account_of(store, project_id), "", len)

    async def of(self, project_id: str | None, user_id: str | None) -> Told:
        """What stands at most 30 s ago of the account that pays for a project, else of a person. Raises nothing.

        Nothing where no account has a cap.
        """
        if self._terms.self_hosted:
            return NOTHING
        account = user_id if project_id is None else await self._payers.of(project_id)
        return await self._accounts.of(account) if account else NOTHING

    async def _read(self, account_id: str) -> Told:
        now = await self._store.now()
        standing = await standing_in(self._store, self._terms, account_id, plans.month_of(now), now)
        said = shown_notice(standing)
        return Told(b"" if said is None else msgspec.json.encode(said), standing.locked)


class _Known(NamedTuple, Generic[T]):
    until: float  # of the process's own clock, which is asked about age alone
    value: T


class _Recent(Generic[T]):
    """Values by name, each read at most twice a minute, once for all who ask meanwhile."""

    def __init__(self, read: Callable[[str], Awaitable[T]], unknown: T, weigh: Callable[[T], int]) -> None:
        self._read = read
        self._unknown = unknown
        self._known: Weighted[str, _Known[T]] = Weighted(
            lambda known: _ENTRY_BYTES + weigh(known.value), max_bytes=SHARE.of(MAX_BYTES)
        )
        self._reading: dict[str, asyncio.Task[T]] = {}

    async def of(self, name: str) -> T:
        known = self._known.get(name)
        if known is not None and time.monotonic() < known.until:
            return known.value
        task = self._reading.get(name)
        if task is None:
            task = self._reading[name] = asyncio.create_task(self._look(name))
            task.add_done_callback(lambda _: self._reading.pop(name, None))
        return await asyncio.shield(task)

    async def _look(self, name: str) -> T:
        value = self._unknown
        try:
            async with asyncio.timeout(READ_SECONDS):
                value = await self._read(name)
        except (CommandNotDone, TimeoutError, psycopg.Error):
            pass  # asked again after the same while, so that a busy database is not asked more
        self._known.put(name, _Known(time.monotonic() + FRESH_SECONDS, value))
        return value


def beside(body: bytes, notice: bytes) -> bytes:
    """Add a notice to an answer that is a JSON object; any other body stays as it is."""
    if not notice or not body.startswith(b"{"):
        return body
    joint = b"" if body == b"{}" else b","
    return body[:-1] + joint + b'"billing_notice":' + notice + b"}"
