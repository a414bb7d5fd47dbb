"""Whether a project's data arrives, and what waits for attention in it (R-PROJ-12)."""

from typing import Any, NamedTuple, cast

from schemas import projects as wire
from schemas.kernel.shape import DefaultLevel
from service.billing import plans
from service.eventstore.connect.facts import DAY
from service.eventstore.store import EventStore
from service.onboarding.evidence import WhoseEvidence, whose_evidence
from service.projects.next_steps import BEING_DELETED
from service.sql import load_query
from statemachines.cases import case
from statemachines.kernel.machine import is_stale

HOUR = 3600
NOT_KEPT_DAYS = 30
_STANDING = load_query("projects", "health")
_NOT_KEPT = load_query("projects", "not_kept")
_LATEST_LOGS = load_query("projects", "latest_logs")
LOOKED_LOGS = 1_000
"""Newest records of any level in which those below `error` are looked for."""


class NotKeptRow(NamedTuple):
    """What of one kind is not kept, and when the last came (epoch seconds)."""

    protocol: str
    kind: str
    outcome: str
    amount: int
    last_at: int


class LatestLogRow(NamedTuple):
    """The newest record of a level below `error`, and when it was received (epoch seconds)."""

    level: wire.LogLevel
    message: str
    received_at: int


class ProviderLooks(NamedTuple):
    """The exceptions of a connected provider: up to when they were read (None: not yet), and those left out.

    `stale`: that is more than STALE_SECONDS ago, or there was no look for as long.
    """

    read_to: int | None
    stale: bool
    skipped: int


class Health(NamedTuple):
    """The telemetry of a project until `now`. Times are in epoch seconds.

    `new_cases` are those of the present `hour`, `public_cases` those of them by the public DSN. What an onboarding
    proof alone has brought is none of `open_cases`.
    `overflow_open`: nobody has settled the overflow case of this hour yet. `fenced`: the project is being
    deleted.
    `looks` are those at the connected provider, None without one. `no_error_source`: no error came by any way.
    `total` is the project's in the `month`, `account_total` that of the paying account. `by_day` are the last
    days of the project, oldest first, also empty ones. `not_kept` is of the last NOT_KEPT_DAYS, and
    `latest_logs` of the last day, newest first.
    `default_level` is that of native records without one, `without_level_at` when the last of them came within a day.
    `evidence`: whose counts.
    """

    now: int
    month: plans.Month
    total: plans.UsageSum
    account_total: plans.UsageSum
    by_day: list[plans.DayUsage]
    last_event_at: int | None
    last_deploy_at: int | None
    events_last_hour: int
    open_cases: int
    hour: int
    new_cases: int
    public_cases: int
    overflow_case_id: str | None
    overflow_open: bool
    fenced: bool
    not_kept: list[NotKeptRow]
    latest_logs: list[LatestLogRow]
    default_level: DefaultLevel
    without_level_at: int | None
    evidence: WhoseEvidence
    looks: ProviderLooks | None
    no_error_source: bool


async def health_of(store: EventStore, project_id: str, days: int = 0) -> Health:
    """Read the last times and the amounts of data: in the UTC month, the last hour, and each of the last days."""
    now = await store.now()
    month = plans.month_of(now)
    total = plans.total_of(await plans.project_usage(store, project_id, month.start, month.last_day))
    today = now - now % DAY
    wanted = range(today - (days - 1) * DAY, today + DAY, DAY)
    found = {day.day: day for day in await plans.project_usage(store, project_id, wanted[0], today)} if wanted else {}
    account = await plans.account_of(store, project_id)
    account_total = plans.total_of(await plans.account_usage(store, account, month.start, month.last_day))
    hour = now - now % HOUR
    overflow_id = case.case_id(project_id, case.overflow_fingerprint(hour))
    [
        [
            last_deploy_at,
            open_cases,
            opened,
            opened_public,
            overflow_case_id,
            overflow_open,
            fenced,
            level,
            no_level_at,
            connected_at,
            read_to,
            skipped,
            no_error,
        ]
    ] = await store.fetch(_STANDING, project_id=project_id, hour=hour, overflow_id=overflow_id, a_day_ago=now - DAY)
    return Health(
        now=now,
        month=month,
        total=total,
        account_total=account_total,
        by_day=[found.get(day, plans.DayUsage(day, 0, 0, 0)) for day in wanted],
        last_event_at=await plans.last_event_received_at(store, project_id),
        last_deploy_at=last_deploy_at,
        events_last_hour=await plans.events_since(store, project_id, now - HOUR),
        open_cases=open_cases,
        hour=hour,
        new_cases=opened or 0,
        public_cases=opened_public or 0,
        overflow_case_id=overflow_case_id,
        overflow_open=overflow_open,
        fenced=fenced,
        default_level=level,
        without_level_at=no_level_at,
        looks=None if connected_at is None else ProviderLooks(read_to, is_stale(read_to, connected_at, now), skipped),
        no_error_source=no_error,
        evidence=await whose_evidence(store, project_id),
        not_kept=[
            NotKeptRow(*row)
            for row in await store.fetch(_NOT_KEPT, project_id=project_id, since=today - (NOT_KEPT_DAYS - 1) * DAY)
        ],
        latest_logs=[
            LatestLogRow(*row)
            for row in await store.fetch(_LATEST_LOGS, project_id=project_id, since=now - DAY, looked=LOOKED_LOGS)
        ],
    )


# A project's health on the wire (R-PROJ-12).


def project_health(
    project_id: str, health: Health, new_cases_per_hour: int, webhooks: list[wire.WebhookHealth]
) -> wire.ProjectHealth:
    """The last arrival and amount of data, the webhooks, and the conditions that need attention."""
    last = health.last_event_at
    return wire.ProjectHealth(
        project_id=project_id,
        last_event_received_at=last,
        last_deploy_at=health.last_deploy_at,
        seconds_since_last_event=None if last is None else max(0, health.now - last),
        open_cases=health.open_cases,
        events_last_hour=health.events_last_hour,
        usage_this_month=_usage(health),
        by_day=_by_day(health),
        new_cases=wire.NewCases(
            hour_started_at=health.hour,
            opened=health.new_cases,
            limit=new_cases_per_hour,
            public_opened=health.public_cases,
            public_limit=case.public_share(new_cases_per_hour),
            overflow_case_id=health.overflow_case_id,
        ),
        webhooks=webhooks,
        not_kept=[
            wire.NotKept(
                protocol=cast("Any", row.protocol),
                kind=row.kind,
                outcome=cast("Any", row.outcome),
                count=row.amount,
                last_at=row.last_at,
            )
            for row in health.not_kept
        ],
        latest_logs=[
            wire.LatestLog(level=row.level, message=row.message, received_at=row.received_at)
            for row in health.latest_logs
        ],
        default_level=health.default_level,
        last_log_without_level_at=health.without_level_at,
        evidence_source=health.evidence.evidence_source,
        provider_exceptions=_looks(health),
        no_error_source=health.no_error_source,
        next_action=_advice(health),
    )


def _looks(health: Health) -> wire.ProviderExceptions | None:
    looks = health.looks
    if looks is None:
        return None
    return wire.ProviderExceptions(read_to=looks.read_to, stale=looks.stale, provider_exceptions_skipped=looks.skipped)


def _usage(health: Health) -> wire.UsageThisMonth:
    total = health.total
    return wire.UsageThisMonth(
        period=health.month.name,
        total_events=total.events,
        errors=total.errors,
        analytics=total.analytics,
        deploys=total.deploys,
        account_total_events=health.account_total.events,
    )


def _by_day(health: Health) -> list[wire.ProjectDay]:
    return [
        wire.ProjectDay(
            date=day.day,
            total_events=day.errors + day.analytics + day.deploys,
            errors=day.errors,
            analytics=day.analytics,
            deploys=day.deploys,
        )
        for day in health.by_day
    ]


def _advice(health: Health) -> str:
    if health.fenced:
        return BEING_DELETED
    if (silent := _silence(health)) is not None:
        return silent
    if health.overflow_open:
        return (
            "Read the case in overflow_case_id. The project has reached its limit of new cases. Find out "
            "why its errors differ, then ignore that case."
        )
    if health.open_cases:
        return (
            "List the open cases and start with the one that affects the most people. Resolve "
            "fixed cases, and ignore those without need for a fix."
        )
    if health.without_level_at is not None:
        return (
            "Name the level of each record of POST /v1/logs/. Without a level, an exception and a stack it is "
            f"{health.default_level}, as default_level says."
        )
    return "Nothing needs attention."


def _silence(health: Health) -> str | None:
    """Advice where nothing comes. None elsewhere."""
    if health.looks is not None and health.looks.stale:
        return "Connect the provider again: its exceptions were not read for ten minutes."
    if health.last_event_at is None and health.looks is None:
        return "Nothing has arrived yet: send a first event with the project's DSN."
    return None
