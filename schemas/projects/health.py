"""Wire contract of a project's health (R-PROJ-12)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from schemas.kernel.shape import Epoch

Count = Annotated[int, Meta(ge=0)]


class UsageThisMonth(msgspec.Struct, frozen=True, kw_only=True):
    """What the project has sent in the current UTC month; `errors` counts every log event.

    `account_total_events` is what its account has sent, with all of its projects: what the plan's cap counts.
    """

    period: Annotated[str, Meta(pattern=r"^\d{4}-\d{2}$")]
    total_events: Count
    errors: Count
    analytics: Count
    deploys: Count
    account_total_events: Count


class NewCases(msgspec.Struct, frozen=True, kw_only=True):
    """How many cases errors have opened in the current hour, of as many as may be (G-136).

    What is new beyond `limit` is counted in the case that `overflow_case_id` names, if there is one yet.
    """

    hour_started_at: Epoch
    opened: Count
    limit: Count
    overflow_case_id: str | None


class WebhookHealth(msgspec.Struct, frozen=True, kw_only=True):
    """How the latest delivery of a webhook went."""

    id: str
    last_status: int | None
    last_error: str | None


class ProjectHealth(msgspec.Struct, frozen=True, kw_only=True):
    """Whether data arrives, and what needs attention."""

    project_id: str
    last_event_received_at: Epoch | None
    last_deploy_at: Epoch | None
    seconds_since_last_event: Count | None
    open_cases: Count
    events_last_hour: Count
    usage_this_month: UsageThisMonth
    new_cases: NewCases
    webhooks: list[WebhookHealth]
    next_action: str
