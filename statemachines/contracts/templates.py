"""The published playbooks, one record a version (R-PB-02, R-PB-08 to R-PB-14). A record here is never edited.

A change is a new version beside the old one: contracts and runs name a version by its hash, which covers everything
here but the prose and the list of operations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from schemas.contracts.playbook import (
    Assertions,
    Bindings,
    ErrorToDraftPrAssertions,
    ErrorToDraftPrBindings,
    FunnelReviewOutput,
    PlaybookId,
    RenderErrorToDraftPr,
    RenderWeeklyFunnelReview,
    SelfHealingOutput,
    WeeklyFunnelReviewAssertions,
    WeeklyFunnelReviewBindings,
)

_PROJECT = "/v1/projects/{project_id}"
_RUN = "/v1/automation-runs/{run_id}"
_ROUTE = tuple[Literal["GET", "POST", "PUT", "PATCH"], str]


@dataclass(frozen=True, kw_only=True, eq=False)
class Template:
    """One published version: what can be bound, what is locked, what a run hands over."""

    id: PlaybookId
    version: str
    title: str
    description: str
    trigger_kind: Literal["unhandled_cases", "schedule"]
    output_kind: Literal["pull_request", "funnel_review"]
    locked_invariants: dict[str, Any]
    required_assertions: tuple[str, ...]  # false ones are readiness gaps
    request: type[RenderErrorToDraftPr | RenderWeeklyFunnelReview]
    bindings: type[Bindings]
    assertions: type[Assertions]
    output: type[SelfHealingOutput | FunnelReviewOutput]
    operations: tuple[_ROUTE, ...]
    next_action: str

    @property
    def forbidden_overrides(self) -> tuple[str, ...]:
        """Paths inside `bindings` that the playbook decides itself."""
        return tuple(self.locked_invariants["forbidden_overrides"])

    @property
    def allowed_actions(self) -> tuple[str, ...]:
        """What a run may do."""
        return tuple(self.locked_invariants["allowed_actions"])

    @property
    def forbidden_actions(self) -> tuple[str, ...]:
        """What a run may never do."""
        return tuple(self.locked_invariants["forbidden_actions"])


_SETUP: tuple[_ROUTE, ...] = (
    ("GET", "/v1/automation-playbooks/{id}"),
    ("GET", f"{_PROJECT}/signal-map"),
    ("POST", f"{_PROJECT}/automation-playbooks/{{id}}/render"),
    ("POST", f"{_PROJECT}/automation-contract/validate"),
    ("PUT", f"{_PROJECT}/automation-contract"),
    ("GET", f"{_PROJECT}/automation-contract"),
    ("POST", f"{_PROJECT}/credentials"),
    ("POST", f"{_PROJECT}/automation-contract/enable"),
    ("GET", f"{_PROJECT}/automation-control"),
    ("POST", f"{_PROJECT}/automation-contract/pause"),
    ("PATCH", f"{_PROJECT}/automation-contract/automations/{{automation_id}}"),
    ("POST", f"{_PROJECT}/automation-triggers/issue"),
    ("GET", f"{_PROJECT}/automation-trigger-receipts"),
    ("GET", "/v1/automation-trigger-receipts/{receipt_id}"),
)
_RUNNING: tuple[_ROUTE, ...] = (
    ("POST", f"{_PROJECT}/automation-runs"),
    ("GET", _RUN),
    ("PATCH", _RUN),
    ("POST", f"{_RUN}/usage"),
)

ERROR_TO_DRAFT_PR = Template(
    id="error-to-draft-pr",
    version="4.0.0",
    title="Error to draft pull request",
    description=(
        "Self-healing loop: an unhandled customer exception that passes the server's materiality test becomes one"
        " bounded pull request, proven by trusted CI and by the deploy that follows it."
    ),
    trigger_kind="unhandled_cases",
    output_kind="pull_request",
    locked_invariants={
        "enabled": False,
        "required_trust": "customer_provider",
        "runner_mode": "draft_only",
        "allowed_actions": ["draft_pr", "escalate"],
        "forbidden_actions": ["direct_merge", "force_merge", "merge_bypass", "deploy", "rollback", "direct_push"],
        "default_code_delivery": "review_required",
        "supported_code_delivery_modes": ["review_required", "auto_merge"],
        "telemetry_instruction_authority": "none",
        "materiality": {
            "decided_by": "deterministic_server_policy",
            "inputs": ["lifecycle", "event_count", "last_seen_at"],
            "every_check_must_pass": True,
        },
        "verification": {
            "blueprint_id": "deploy-recurrence",
            "deploy": "exact_trusted_recurrence_outcome",
            "traffic": "approved_sample",
        },
        "forbidden_overrides": [
            "enabled",
            "allowed_actions",
            "mode",
            "merge",
            "deploy",
            "rollback",
            "verification.blueprint_id",
            "data_boundary",
        ],
    },
    required_assertions=(
        "repository_pull_request_access_confirmed",
        "ci_proof_callback_configured",
        "deploy_ingest_configured",
    ),
    request=RenderErrorToDraftPr,
    bindings=ErrorToDraftPrBindings,
    assertions=ErrorToDraftPrAssertions,
    output=SelfHealingOutput,
    operations=(
        *_SETUP,
        ("GET", "/v1/cases/{case_id}/claims/active"),
        ("POST", "/v1/cases/{case_id}/claims"),
        ("POST", "/v1/cases/{case_id}/claims/{claim_id}/renew"),
        ("POST", "/v1/cases/{case_id}/claims/{claim_id}/release"),
        ("GET", "/v1/cases/{case_id}"),
        *_RUNNING,
        ("POST", f"{_RUN}/approvals"),
        ("POST", "/v1/automation-approvals/{approval_id}/decide"),
        ("POST", f"{_RUN}/actions/draft-pr/authorize"),
        ("POST", f"{_RUN}/actions/draft-pr/consume"),
        ("POST", f"{_RUN}/pr-proof"),
        ("POST", f"{_RUN}/actions/auto-merge/authorize"),
        ("POST", f"{_RUN}/actions/auto-merge/consume"),
        ("POST", "/v1/deploys/"),
        ("POST", f"{_RUN}/verify"),
        ("POST", f"{_RUN}/cancel"),
    ),
    next_action="Bind this version to a repository and render a disabled candidate in a project.",
)

WEEKLY_FUNNEL_REVIEW = Template(
    id="weekly-funnel-review",
    version="2.0.0",
    title="Weekly funnel review",
    description=(
        "Self-improving loop: on a schedule one approved funnel is compared with the period before it, and the"
        " runner records one private, typed report of metrics, hypotheses and readiness gaps."
    ),
    trigger_kind="schedule",
    output_kind="funnel_review",
    locked_invariants={
        "enabled": False,
        "required_trust": "customer_provider",
        "runner_mode": "report_only",
        "report_kind": "funnel_review",
        "allowed_actions": ["record_report", "escalate"],
        "forbidden_actions": ["draft_pr", "change_code", "publish", "send", "merge", "deploy"],
        "approved_events": {"minimum": 2, "maximum": 20, "ordered": True, "distinct": True},
        "claims": {"kinds": ["evidence", "hypothesis"], "causality": "never"},
        "telemetry_instruction_authority": "none",
        "max_prs_per_day": 0,
        "max_attempts_per_case_revision": 1,
        "forbidden_overrides": [
            "enabled",
            "allowed_actions",
            "draft_pr",
            "publish",
            "send",
            "report_plan.blueprint_id",
            "data_boundary",
        ],
    },
    required_assertions=("scheduler_execution_configured",),
    request=RenderWeeklyFunnelReview,
    bindings=WeeklyFunnelReviewBindings,
    assertions=WeeklyFunnelReviewAssertions,
    output=FunnelReviewOutput,
    operations=(
        *_SETUP,
        *_RUNNING,
        ("POST", f"{_RUN}/report-source"),
        ("POST", f"{_RUN}/actions/record-report"),
        ("POST", f"{_RUN}/cancel"),
    ),
    next_action="Bind this version to a schedule and a funnel, and render a disabled candidate in a project.",
)

PUBLISHED: tuple[Template, ...] = (ERROR_TO_DRAFT_PR, WEEKLY_FUNNEL_REVIEW)
"""Every version of every playbook, the versions of one playbook oldest first."""
