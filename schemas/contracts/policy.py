"""The policy of one automation as a playbook renders it (G-100): what an owner approves and the server carries out.

`playbook_id` tells the two kinds apart. The values of a published version never change, so these structs only grow
with new versions. The cost is exact: a decimal here, a number on the wire. A save demands the whole policy, so no
member has a default.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal

from msgspec import Meta

from schemas.contracts.playbook import (
    MAX_COST_USD,
    AttemptsPerRevision,
    AutomationId,
    CaseTrigger,
    CodeDelivery,
    ErrorToDraftPrAssertions,
    ErrorToDraftPrBindings,
    Escalation,
    EventName,
    Execution,
    Funnel,
    Name,
    PrsPerDay,
    ReportRunner,
    RepositoryRunner,
    RunsPerDay,
    RuntimeSeconds,
    Schedule,
    Scope,
    TurnsPerRun,
    VerificationWindow,
    WeeklyFunnelReviewAssertions,
    WeeklyFunnelReviewBindings,
)
from schemas.kernel.shape import Closed, exactly

WORKFLOW_NODES = (
    "trigger.schedule.cron@1.0.0",
    "query.analytics.ordered-funnel-period-compare@1.0.0",
    "agent.funnel-review@1.0.0",
    "effect.report.private@1.0.0",
)
"""The one graph that workflow v3 enables, in order (R-AUT-13)."""

Off = Annotated[bool, Meta(extra_json_schema={"const": False})]
Cost = Annotated[Decimal, Meta(extra_json_schema={"exclusiveMinimum": 0, "maximum": MAX_COST_USD})]


class DataBoundary(Closed, frozen=True):
    """Telemetry is evidence and never an instruction."""

    telemetry_instruction_authority: Literal["none"]


# ---- error-to-draft-pr@4.0.0


class UnhandledCases(CaseTrigger, frozen=True, tag_field="kind", tag="unhandled_cases"):
    """Triggered by material cases that nobody is handling."""


class CaseLimits(Closed, frozen=True, kw_only=True):
    """The budgets of a repair."""

    max_runs_per_day: RunsPerDay
    max_prs_per_day: PrsPerDay
    max_attempts_per_case_revision: AttemptsPerRevision
    max_turns_per_run: TurnsPerRun
    max_runtime_seconds: RuntimeSeconds
    max_cost_usd_per_run: Cost


class VerificationPolicy(VerificationWindow, frozen=True, kw_only=True):
    """The judgement of a deploy. Its query is locked."""

    traffic_sample_event: EventName
    blueprint_id: Literal["deploy-recurrence"]


class ErrorToDraftPrPolicy(Closed, frozen=True, kw_only=True, tag_field="playbook_id", tag="error-to-draft-pr"):
    """Policy of the self-healing loop (R-PB-08)."""

    automation_id: AutomationId
    name: Name
    enabled: Off
    playbook_version: Literal["4.0.0"]
    required_trust: Literal["customer_provider"]
    runner_mode: Literal["draft_only"]
    runner: RepositoryRunner
    execution: Execution
    trigger: UnhandledCases
    scope: Scope
    budgets: CaseLimits
    code_delivery: CodeDelivery
    allowed_actions: Annotated[tuple[str, ...], exactly("draft_pr", "escalate")]
    forbidden_actions: Annotated[
        tuple[str, ...], exactly("direct_merge", "force_merge", "merge_bypass", "deploy", "rollback", "direct_push")
    ]
    verification: VerificationPolicy
    escalation: Escalation
    data_boundary: DataBoundary
    workflow: None


class ErrorToDraftPrVersion(Closed, frozen=True):
    """The published version of `error-to-draft-pr`, by its hash."""

    id: Literal["error-to-draft-pr"]
    version: Literal["4.0.0"]
    template_hash: Literal["ab4284e2237eb76522170809719ea223a148dff25e6361928d62a827c1ebd21e"]


class ErrorToDraftPrEntry(Closed, frozen=True):
    """Contract entry of `error-to-draft-pr`, as a render returns it."""

    playbook: ErrorToDraftPrVersion
    bindings: ErrorToDraftPrBindings
    readiness_assertions: ErrorToDraftPrAssertions
    policy: ErrorToDraftPrPolicy


# ---- weekly-funnel-review@2.0.0


class Scheduled(Schedule, frozen=True, tag_field="kind", tag="schedule"):
    """Triggered by a schedule in local time."""


class ReportLimits(Closed, frozen=True, kw_only=True):
    """The budgets of a review: those of a repair, with no pull request and one attempt."""

    max_runs_per_day: RunsPerDay
    max_prs_per_day: Literal[0]
    max_attempts_per_case_revision: Literal[1]
    max_turns_per_run: TurnsPerRun
    max_runtime_seconds: RuntimeSeconds
    max_cost_usd_per_run: Cost


class ReportPlan(Funnel, frozen=True, kw_only=True):
    """The comparison of a review. Its query is locked."""

    blueprint_id: Literal["ordered-funnel-period-compare"]


class Workflow(Closed, frozen=True):
    """A workflow graph by its nodes (G-116)."""

    version: Literal[3]
    nodes: Annotated[tuple[str, ...], exactly(*WORKFLOW_NODES)]


class WeeklyFunnelReviewPolicy(Closed, frozen=True, kw_only=True, tag_field="playbook_id", tag="weekly-funnel-review"):
    """Policy of the self-improving loop (R-PB-11, R-PB-12)."""

    automation_id: AutomationId
    name: Name
    enabled: Off
    playbook_version: Literal["2.0.0"]
    required_trust: Literal["customer_provider"]
    runner_mode: Literal["report_only"]
    runner: ReportRunner
    execution: Execution
    report_kind: Literal["funnel_review"]
    trigger: Scheduled
    report_plan: ReportPlan
    budgets: ReportLimits
    allowed_actions: Annotated[tuple[str, ...], exactly("record_report", "escalate")]
    forbidden_actions: Annotated[
        tuple[str, ...], exactly("draft_pr", "change_code", "publish", "send", "merge", "deploy")
    ]
    escalation: Escalation
    data_boundary: DataBoundary
    workflow: Workflow


class WeeklyFunnelReviewVersion(Closed, frozen=True):
    """The published version of `weekly-funnel-review`, by its hash."""

    id: Literal["weekly-funnel-review"]
    version: Literal["2.0.0"]
    template_hash: Literal["48f7475fdf781c560f7ae583e84b4777dc9ebf9321fe2bbc887e9a7048543851"]


class WeeklyFunnelReviewEntry(Closed, frozen=True):
    """Contract entry of `weekly-funnel-review`, as a render returns it."""

    playbook: WeeklyFunnelReviewVersion
    bindings: WeeklyFunnelReviewBindings
    readiness_assertions: WeeklyFunnelReviewAssertions
    policy: WeeklyFunnelReviewPolicy


Policy = ErrorToDraftPrPolicy | WeeklyFunnelReviewPolicy
