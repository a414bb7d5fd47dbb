"""A project's health on the wire (R-PROJ-12)."""

from __future__ import annotations

from typing import Any, cast

from schemas.projects.health import (
    LatestLog,
    NewCases,
    NotKept,
    ProjectDay,
    ProjectHealth,
    ProviderExceptions,
    UsageThisMonth,
    WebhookHealth,
)
from service.projects.reads.health import Health
from service.projects.show.next_steps import BEING_DELETED
from statemachines.cases.case import public_share


def project_health(
    project_id: str, health: Health, new_cases_per_hour: int, webhooks: list[WebhookHealth]
) -> ProjectHealth:
    """The last arrival and amount of data, the webhooks, and the conditions that need attention."""
    last = health.last_event_at
    return ProjectHealth(
        project_id=project_id,
        last_event_received_at=last,
        last_deploy_at=health.last_deploy_at,
        seconds_since_last_event=None if last is None else max(0, health.now - last),
        open_cases=health.open_cases,
        events_last_hour=health.events_last_hour,
        usage_this_month=_usage(health),
        by_day=_by_day(health),
        new_cases=NewCases(
            hour_started_at=health.hour,
            opened=health.new_cases,
            limit=new_cases_per_hour,
            public_opened=health.public_cases,
            public_limit=public_share(new_cases_per_hour),
            overflow_case_id=health.overflow_case_id,
        ),
        webhooks=webhooks,
        not_kept=[
            NotKept(
                protocol=cast("Any", row.protocol),
                kind=row.kind,
                outcome=cast("Any", row.outcome),
                count=row.amount,
                last_at=row.last_at,
            )
            for row in health.not_kept
        ],
        latest_logs=[
            LatestLog(level=row.level, message=row.message, received_at=row.received_at) for row in health.latest_logs
        ],
        default_level=health.default_level,
        last_log_without_level_at=health.without_level_at,
        evidence_source=health.evidence.evidence_source,
        provider_exceptions=_looks(health),
        no_error_source=health.no_error_source,
        next_action=_advice(health),
    )


def _looks(health: Health) -> ProviderExceptions | None:
    looks = health.looks
    if looks is None:
        return None
    return ProviderExceptions(read_to=looks.read_to, stale=looks.stale, provider_exceptions_skipped=looks.skipped)


def _usage(health: Health) -> UsageThisMonth:
    total = health.total
    return UsageThisMonth(
        period=health.month.name,
        total_events=total.events,
        errors=total.errors,
        analytics=total.analytics,
        deploys=total.deploys,
        account_total_events=health.account_total.events,
    )


def _by_day(health: Health) -> list[ProjectDay]:
    return [
        ProjectDay(
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
