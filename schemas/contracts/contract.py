"""Wire contracts of automation contracts and their policies (G-100, G-101, G-103).

The entries of an input are decoded loosely and checked one by one, so that an answer names every fault of every
entry. `policy_version` is the integer 2 (G-011).
"""

from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from schemas.contracts import playbook as playbooks
from schemas.kernel.shape import Closed, exactly, one_of

# The policy of one automation as a playbook renders it (G-100): what an owner approves and the server carries out.
# `playbook_id` tells the two kinds apart. The values of a published version never change, so these structs only grow
# with new versions. The cost is exact: a decimal here, a number on the wire. A save demands the whole policy, so no
# member has a default.

WORKFLOW_NODES = (
    "trigger.schedule.cron@1.0.0",
    "query.analytics.ordered-funnel-period-compare@1.0.0",
    "agent.funnel-review@1.0.0",
    "effect.report.private@1.0.0",
)
"""The one graph that workflow v3 enables, in order (R-AUT-13)."""

Off = Annotated[bool, Meta(extra_json_schema={"const": False})]
Cost = Annotated[Decimal, Meta(extra_json_schema={"exclusiveMinimum": 0, "maximum": playbooks.MAX_COST_USD})]


class DataBoundary(Closed, frozen=True):
    """Telemetry is evidence and never an instruction."""

    telemetry_instruction_authority: Literal["none"]


# ---- error-to-draft-pr@4.0.0


class UnhandledCases(playbooks.CaseTrigger, frozen=True, tag_field="kind", tag="unhandled_cases"):
    """Triggered by material cases that nobody is handling."""


class CaseLimits(Closed, frozen=True, kw_only=True):
    """The budgets of a repair."""

    max_runs_per_day: playbooks.RunsPerDay
    max_prs_per_day: playbooks.PrsPerDay
    max_attempts_per_case_revision: playbooks.AttemptsPerRevision
    max_turns_per_run: playbooks.TurnsPerRun
    max_runtime_seconds: playbooks.RuntimeSeconds
    max_cost_usd_per_run: Cost


class VerificationPolicy(playbooks.VerificationWindow, frozen=True, kw_only=True):
    """The judgement of a deploy. Its query is locked."""

    traffic_sample_event: playbooks.EventName
    blueprint_id: Literal["deploy-recurrence"]


class ErrorToDraftPrPolicy(Closed, frozen=True, kw_only=True, tag_field="playbook_id", tag="error-to-draft-pr"):
    """Policy of the self-healing loop (R-PB-08)."""

    automation_id: playbooks.AutomationId
    name: playbooks.Name
    enabled: Off
    playbook_version: Literal["4.0.0"]
    required_trust: Literal["customer_provider"]
    runner_mode: Literal["draft_only"]
    runner: playbooks.RepositoryRunner
    execution: playbooks.Execution
    trigger: UnhandledCases
    scope: playbooks.Scope
    budgets: CaseLimits
    code_delivery: playbooks.CodeDelivery
    allowed_actions: Annotated[tuple[str, ...], exactly("draft_pr", "escalate")]
    forbidden_actions: Annotated[
        tuple[str, ...], exactly("direct_merge", "force_merge", "merge_bypass", "deploy", "rollback", "direct_push")
    ]
    verification: VerificationPolicy
    escalation: playbooks.Escalation
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
    bindings: playbooks.ErrorToDraftPrBindings
    readiness_assertions: playbooks.ErrorToDraftPrAssertions
    policy: ErrorToDraftPrPolicy


# ---- weekly-funnel-review@2.0.0


class Scheduled(playbooks.Schedule, frozen=True, tag_field="kind", tag="schedule"):
    """Triggered by a schedule in local time."""


class ReportLimits(Closed, frozen=True, kw_only=True):
    """The budgets of a review: those of a repair, with no pull request and one attempt."""

    max_runs_per_day: playbooks.RunsPerDay
    max_prs_per_day: Literal[0]
    max_attempts_per_case_revision: Literal[1]
    max_turns_per_run: playbooks.TurnsPerRun
    max_runtime_seconds: playbooks.RuntimeSeconds
    max_cost_usd_per_run: Cost


class ReportPlan(playbooks.Funnel, frozen=True, kw_only=True):
    """The comparison of a review. Its query is locked."""

    blueprint_id: Literal["ordered-funnel-period-compare"]


class Workflow(Closed, frozen=True):
    """A workflow graph by its nodes (G-116)."""

    version: Literal[3]
    nodes: Annotated[tuple[str, ...], exactly(*WORKFLOW_NODES)]


class WeeklyFunnelReviewPolicy(Closed, frozen=True, kw_only=True, tag_field="playbook_id", tag="weekly-funnel-review"):
    """Policy of the self-improving loop (R-PB-11, R-PB-12)."""

    automation_id: playbooks.AutomationId
    name: playbooks.Name
    enabled: Off
    playbook_version: Literal["2.0.0"]
    required_trust: Literal["customer_provider"]
    runner_mode: Literal["report_only"]
    runner: playbooks.ReportRunner
    execution: playbooks.Execution
    report_kind: Literal["funnel_review"]
    trigger: Scheduled
    report_plan: ReportPlan
    budgets: ReportLimits
    allowed_actions: Annotated[tuple[str, ...], exactly("record_report", "escalate")]
    forbidden_actions: Annotated[
        tuple[str, ...], exactly("draft_pr", "change_code", "publish", "send", "merge", "deploy")
    ]
    escalation: playbooks.Escalation
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
    bindings: playbooks.WeeklyFunnelReviewBindings
    readiness_assertions: playbooks.WeeklyFunnelReviewAssertions
    policy: WeeklyFunnelReviewPolicy


Policy = ErrorToDraftPrPolicy | WeeklyFunnelReviewPolicy


# Wire contracts of the automation contract: what an owner saves, enables, pauses and disables (G-101, G-103).

MAX_CONTRACT_BYTES = 262144
MAX_AUTOMATIONS = 20
MAX_ERRORS = 1000
MAX_EFFECTS = 50

Entries = Annotated[
    list[Annotated[Any, one_of(ErrorToDraftPrEntry, WeeklyFunnelReviewEntry, deep=True)]],
    Meta(min_length=1, max_length=MAX_AUTOMATIONS),
]
"""Entries of a contract, as renders return them."""
BoundPolicy = Annotated[dict[str, Any], one_of(ErrorToDraftPrPolicy, WeeklyFunnelReviewPolicy)]
Reason = Annotated[str, Meta(min_length=1, max_length=500)]


class ContractInput(Closed, frozen=True):
    """A disabled contract, composed of rendered candidates."""

    policy_version: Literal[2]
    automations: Entries


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A rendered, disabled automation, and the contract input that would save it (G-100)."""

    kind: Literal["automation_candidate"] = "automation_candidate"
    project_id: str
    playbook: playbooks.PlaybookRef
    enabled: bool = False
    automation: BoundPolicy
    contract_input: ContractInput
    candidate_sha256: playbooks.Sha256
    readiness_gaps: list[playbooks.Gap]
    next_action: str


class EnableRequest(Closed, frozen=True):
    """The automation to enable. All of them when none is named."""

    automation_id: playbooks.AutomationId | UnsetType = UNSET


class PauseRequest(Closed, frozen=True):
    """The reason for a pause."""

    reason: Reason | UnsetType = UNSET


class DisableRequest(Closed, frozen=True):
    """Disable one automation. To enable one, use the enable operation."""

    enabled: Annotated[bool, Meta(extra_json_schema={"const": False})]
    reason: Reason | UnsetType = UNSET


class EnableReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The record of one enable: the person, the automations and the contract (G-103)."""

    receipt_id: str
    contract_id: str
    contract_sha256: playbooks.Sha256
    contract_revision: int
    previous_etag: str
    etag: str
    automation_ids: list[str]
    enabled_at: int
    enabled_by: str


class ContractAutomation(msgspec.Struct, frozen=True, kw_only=True):
    """One automation of a saved contract: its entry and its state."""

    playbook: playbooks.PlaybookRef
    bindings: Annotated[dict[str, Any], one_of(playbooks.ErrorToDraftPrBindings, playbooks.WeeklyFunnelReviewBindings)]
    readiness_assertions: Annotated[
        dict[str, Any], one_of(playbooks.ErrorToDraftPrAssertions, playbooks.WeeklyFunnelReviewAssertions)
    ]
    policy: BoundPolicy
    automation_id: str
    enabled: bool
    enabled_at: int | None
    disabled_at: int | None
    disabled_reason: str | None
    policy_sha256: playbooks.Sha256


class AutomationContract(msgspec.Struct, frozen=True, kw_only=True):
    """The contract, as PUT, GET and PATCH return it. `etag` is also the response header."""

    contract_id: str
    project_id: str
    policy_version: Literal[2] = 2
    revision: int
    etag: str
    contract_sha256: playbooks.Sha256
    enabled: bool
    paused: bool
    paused_at: int | None
    automations: list[ContractAutomation]
    enable_receipt: EnableReceipt | None
    created_at: int
    updated_at: int
    updated_by: str
    next_action: str


class EnableAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The receipt of an enable with the current contract. On a replay they may differ."""

    enable_receipt: EnableReceipt
    contract: AutomationContract
    idempotent_replay: bool
    next_action: str


class FenceEvent(msgspec.Struct, frozen=True):
    """The event after which nothing new begins: its stream and revision."""

    stream_id: str
    revision: int


class StartedEffect(msgspec.Struct, frozen=True):
    """A provider call that began before the stop and is not settled. A stop does not undo it.

    `unresolved`: its run has ended, and the result of the call is unknown.
    """

    kind: Literal["draft_pr", "auto_merge"]
    automation_id: str
    run_id: str
    grant_id: str
    status: Literal["consumed", "unresolved"]
    started_at: int


class PauseAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The contract with everything off, and what had begun before.

    `effects_started` is null if it could not be read in time. The stop is in force, and automation-control
    lists the effects.
    """

    contract: AutomationContract
    paused_at: int
    fence: FenceEvent
    effects_started: Annotated[list[StartedEffect], Meta(max_length=MAX_EFFECTS)] | None = None
    effects_truncated: bool = False
    next_action: str


class DisabledContract(AutomationContract, frozen=True, kw_only=True):
    """The contract with one automation off, and its earlier effects, both as in PauseAnswer."""

    fence: FenceEvent
    effects_started: Annotated[list[StartedEffect], Meta(max_length=MAX_EFFECTS)] | None = None
    effects_truncated: bool = False


class ContractProblem(msgspec.Struct, frozen=True):
    """One fault of an input, by its path."""

    path: str
    code: str
    message: str


class AutomationGap(msgspec.Struct, frozen=True):
    """A condition that must hold before this automation can be enabled."""

    automation_id: str
    code: str
    message: str


class Readiness(msgspec.Struct, frozen=True):
    """The readiness of every automation."""

    ready: bool
    gaps: list[AutomationGap]


class ProposedSampleSize(msgspec.Struct, frozen=True):
    """The sample size at which a repair of this case would be as sure as asked for, by its history (G-173)."""

    automation_id: str
    case_id: str
    min_sample_size: int
    days: float
    error_probability: float


class ContractValidation(msgspec.Struct, frozen=True, kw_only=True):
    """The validation of the input. `contract_sha256` is null if the input is not valid."""

    valid: bool
    project_id: str
    errors: Annotated[list[ContractProblem], Meta(max_length=MAX_ERRORS)]
    readiness: Readiness
    contract_sha256: playbooks.Sha256 | None
    proposed_sample_sizes: list[ProposedSampleSize]
    warnings: list[AutomationGap]
    next_action: str
