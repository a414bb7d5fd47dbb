"""Wire contract of a project's health (R-PROJ-12)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from schemas.kernel.shape import Epoch, EvidenceSource
from schemas.projects.settings import DefaultLevel

Count = Annotated[int, Meta(ge=0)]
LogLevel = Literal["debug", "info", "warning"]
"""Of records in no case."""


class HealthQuery(msgspec.Struct, frozen=True):
    """How many days to show one by one, the present one included; by default none."""

    days: Annotated[int, Meta(ge=0, le=90)] = 0


class UsageThisMonth(msgspec.Struct, frozen=True, kw_only=True):
    """The usage of the project in the current UTC month. `errors` counts every log event.

    `account_total_events` covers all projects of its account. The plan's cap applies to it.
    """

    period: Annotated[str, Meta(pattern=r"^\d{4}-\d{2}$")]
    total_events: Count
    errors: Count
    analytics: Count
    deploys: Count
    account_total_events: Count


class ProjectDay(msgspec.Struct, frozen=True, kw_only=True):
    """The accepted records of one UTC day. `date` is its midnight."""

    date: Epoch
    total_events: Count
    errors: Count
    analytics: Count
    deploys: Count


class NewCases(msgspec.Struct, frozen=True, kw_only=True):
    """The number of cases opened by errors in the current hour, and its limit (G-136).

    New errors beyond `limit` are counted in the case `overflow_case_id`, null before the first, and so are those by the
    public DSN beyond `public_limit` (G-184).
    """

    hour_started_at: Epoch
    opened: Count
    limit: Count
    public_opened: Count
    public_limit: Count
    overflow_case_id: str | None


class WebhookHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The latest delivery of a webhook."""

    id: str
    last_status: int | None
    last_error: str | None


class NotKept(msgspec.Struct, frozen=True, kw_only=True):
    """Telemetry of one kind of the last 30 days that the service does not hold (G-194, G-195).

    `not_kept` was answered like what is kept, `refused` was refused, `lost_by_sdk` never came: the SDK says so.
    """

    protocol: Literal["sentry", "posthog", "opentelemetry"]
    kind: str
    outcome: Literal["not_kept", "refused", "lost_by_sdk"]
    count: Count
    last_at: Epoch


class LatestLog(msgspec.Struct, frozen=True, kw_only=True):
    """The newest record of a level below `error`. Its message is cut to 200 characters."""

    level: LogLevel
    message: str
    received_at: Epoch


class ProviderExceptions(msgspec.Struct, frozen=True, kw_only=True):
    """The reading of the connected provider's exceptions (G-182)."""

    read_to: Epoch | None
    stale: bool
    provider_exceptions_skipped: Count


class ProjectHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the project's data, and the conditions that need attention."""

    project_id: str
    last_event_received_at: Epoch | None
    last_deploy_at: Epoch | None
    seconds_since_last_event: Count | None
    open_cases: Count
    events_last_hour: Count
    usage_this_month: UsageThisMonth
    by_day: list[ProjectDay]
    new_cases: NewCases
    webhooks: list[WebhookHealth]
    not_kept: list[NotKept]
    latest_logs: list[LatestLog]
    default_level: DefaultLevel
    last_log_without_level_at: Epoch | None
    evidence_source: EvidenceSource
    provider_exceptions: ProviderExceptions | None
    no_error_source: bool
    next_action: str
