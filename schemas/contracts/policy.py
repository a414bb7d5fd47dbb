"""The policy of one automation as a playbook renders it (G-100): what an owner approves and the server carries out.

`playbook_id` tells the two kinds apart. The values of a published version never change, so these structs only grow
with new versions. The cost is exact: a decimal here, a number on the wire.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

import msgspec

from schemas.contracts.playbook import (
    CodeDelivery,
    Escalation,
    Execution,
    Materiality,
    ReportRunner,
    RepositoryRunner,
    Scope,
)

WORKFLOW_NODES = (
    "trigger.schedule.cron@1.0.0",
    "query.analytics.ordered-funnel-period-compare@1.0.0",
    "agent.funnel-review@1.0.0",
    "effect.report.private@1.0.0",
)
"""The one graph that workflow v3 enables, in order (R-AUT-13)."""


class UnhandledCases(msgspec.Struct, frozen=True, tag_field="kind", tag="unhandled_cases"):
    """Triggered by material cases that nobody is handling."""

    max_cases_per_sweep: int
    cooldown_seconds: int
    materiality: Materiality


class Scheduled(msgspec.Struct, frozen=True, tag_field="kind", tag="schedule"):
    """Triggered by a schedule in local time."""

    cron: str
    timezone: str
    start_window_seconds: int


class Limits(msgspec.Struct, frozen=True):
    """Budgets of an automation; both kinds have all of them."""

    max_runs_per_day: int
    max_prs_per_day: int
    max_attempts_per_case_revision: int
    max_turns_per_run: int
    max_runtime_seconds: int
    max_cost_usd_per_run: Decimal


class VerificationPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How a deploy is judged; which query judges it is locked."""

    observation_window_seconds: int
    max_wait_seconds: int
    min_sample_size: int
    traffic_sample_event: str
    blueprint_id: Literal["deploy-recurrence"] = "deploy-recurrence"


class ReportPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a review compares; which query answers it is locked."""

    blueprint_id: Literal["ordered-funnel-period-compare"] = "ordered-funnel-period-compare"
    events: tuple[str, ...]
    period_days: int
    minimum_sample_size: int


class DataBoundary(msgspec.Struct, frozen=True):
    """Telemetry is evidence and never an instruction."""

    telemetry_instruction_authority: Literal["none"] = "none"


class Workflow(msgspec.Struct, frozen=True):
    """A workflow graph by its nodes (G-116)."""

    version: Literal[3] = 3
    nodes: tuple[str, ...] = WORKFLOW_NODES


class ErrorToDraftPrPolicy(msgspec.Struct, frozen=True, kw_only=True, tag_field="playbook_id", tag="error-to-draft-pr"):
    """Policy of the self-healing loop (R-PB-08)."""

    automation_id: str
    name: str
    enabled: bool = False
    playbook_version: str
    required_trust: Literal["customer_provider"] = "customer_provider"
    runner_mode: Literal["draft_only"] = "draft_only"
    runner: RepositoryRunner
    execution: Execution
    trigger: UnhandledCases
    scope: Scope
    budgets: Limits
    code_delivery: CodeDelivery
    allowed_actions: tuple[str, ...]
    forbidden_actions: tuple[str, ...]
    verification: VerificationPolicy
    escalation: Escalation
    data_boundary: DataBoundary = DataBoundary()
    workflow: None = None


class WeeklyFunnelReviewPolicy(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="playbook_id", tag="weekly-funnel-review"
):
    """Policy of the self-improving loop (R-PB-11, R-PB-12)."""

    automation_id: str
    name: str
    enabled: bool = False
    playbook_version: str
    required_trust: Literal["customer_provider"] = "customer_provider"
    runner_mode: Literal["report_only"] = "report_only"
    runner: ReportRunner
    execution: Execution
    report_kind: Literal["funnel_review"] = "funnel_review"
    trigger: Scheduled
    report_plan: ReportPlan
    budgets: Limits
    allowed_actions: tuple[str, ...]
    forbidden_actions: tuple[str, ...]
    escalation: Escalation
    data_boundary: DataBoundary = DataBoundary()
    workflow: Workflow = Workflow()


Policy = ErrorToDraftPrPolicy | WeeklyFunnelReviewPolicy
