"""The data of deliveries beyond cases and deploys: ids, states and revisions after the event (G-160).

No text of telemetry, of reports or of people is in them.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from schemas.alerts.alert import AlertStatus
from schemas.cases.case import CaseStatus
from schemas.runs.approval import ApprovalStatus
from schemas.runs.run import RunPhase, RunStatus

Revision = Annotated[int, Meta(ge=0, description="The revision after the event.")]


class CaseTold(msgspec.Struct, frozen=True, kw_only=True):
    """A case after an event."""

    case_id: str
    status: CaseStatus
    revision: Revision


class CaseMergedTold(CaseTold, frozen=True, kw_only=True):
    """A case whose errors another case has now: the one named by `merged_into`."""

    merged_into: str


class CaseAssignedTold(CaseTold, frozen=True, kw_only=True):
    """A case with its new assignee, null if it has none."""

    assignee: str | None


class OnboardingTold(msgspec.Struct, frozen=True, kw_only=True):
    """An onboarding after an event."""

    onboarding_id: str
    status: Literal["planned", "approved", "proving", "verified"]
    revision: Revision


class RunTold(msgspec.Struct, frozen=True, kw_only=True):
    """A run after an event: its status, or its phase before it has one."""

    run_id: str
    automation_id: str
    case_id: str | None
    status: RunStatus | RunPhase
    revision: Revision


class ApprovalTold(msgspec.Struct, frozen=True, kw_only=True):
    """A request for an approval after an event."""

    approval_id: str
    run_id: str
    automation_id: str
    status: ApprovalStatus
    revision: Revision


class AlertTold(msgspec.Struct, frozen=True, kw_only=True):
    """An alert after an event."""

    alert_id: str
    status: AlertStatus
    revision: Revision


class ProjectTold(msgspec.Struct, frozen=True, kw_only=True):
    """A project whose deletion has begun."""

    project_id: str
    status: Literal["fenced"]
    revision: Revision


class WebhookTold(msgspec.Struct, frozen=True, kw_only=True):
    """The webhook that a test was sent to."""

    webhook_id: str
