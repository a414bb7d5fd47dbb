"""Wire contracts of the playbooks, from bindings to outputs (R-PB-01 to R-PB-33, G-100).

The binding structs are the one place where a bound stands: the published request schemas, the checks and the typed
values all come from them. Every object is closed. They belong to a published version, so they never change: a new
bound is a new version with structs of its own.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from schemas.kernel import patterns
from schemas.kernel.shape import Closed, one_of

# Wire contracts of the playbooks: what an owner binds, what the service answers (R-PB-01 to R-PB-33, G-100).

MAX_RENDER_BYTES = 65536

AutomationId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=100,
        pattern=patterns.SLUG,
        description="Unique in the project: a lowercase letter, then lowercase letters, digits, `_` and `-`.",
    ),
]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
Text500 = Annotated[str, Meta(min_length=1, max_length=500)]
EventName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        pattern=patterns.VISIBLE,
        description="An event name as the signal map has it: no white space, no control characters.",
    ),
]
Environment = Annotated[str, Meta(min_length=1, max_length=100)]
Confirmed = Annotated[bool, Meta(extra_json_schema={"const": True})]
MAX_COST_USD = 10000
CostUsd = Annotated[float, Meta(gt=0, le=MAX_COST_USD, description="US dollars; above 0, at most 10000.")]
RunsPerDay = Annotated[int, Meta(ge=1, le=1000)]
PrsPerDay = Annotated[int, Meta(ge=1, le=100)]
AttemptsPerRevision = Annotated[int, Meta(ge=1, le=20)]
TurnsPerRun = Annotated[int, Meta(ge=1, le=500)]
RuntimeSeconds = Annotated[int, Meta(ge=60, le=86400)]
Seconds30Days = Annotated[int, Meta(ge=60, le=2592000)]
Sha256 = Annotated[str, Meta(pattern=patterns.SHA256)]

Provider = Literal["coding_agent_a", "coding_agent_b", "hosted_ci", "custom"]
PlaybookId = Literal["error-to-draft-pr", "weekly-funnel-review"]


# ---- bindings that both playbooks share (R-PB-15, R-PB-16, R-PB-18 to R-PB-20, R-PB-27)


class Invocation(Closed, frozen=True):
    """The program that the customer's scheduler starts. The service never runs it."""

    executable: Annotated[str, Meta(min_length=1, max_length=500, pattern=patterns.PRINTABLE)]
    argv: Annotated[
        tuple[Annotated[str, Meta(max_length=500, pattern=patterns.PRINTABLE_OR_EMPTY)], ...], Meta(max_length=50)
    ]


class HostedCi(Closed, frozen=True):
    """A job of the customer's hosted CI."""

    workflow_file: Text500
    job_id: Name
    environment_name: Name
    invocation: Invocation


class CustomHost(Closed, frozen=True):
    """A runner that the customer manages elsewhere."""

    management_surface: Text500
    credential_destination: Annotated[str, Meta(min_length=1, max_length=1000)]
    invocation: Invocation


class AgentAExecution(Closed, frozen=True, tag_field="provider", tag="coding_agent_a"):
    """The first coding agent's own scheduler."""


class AgentBExecution(Closed, frozen=True, tag_field="provider", tag="coding_agent_b"):
    """The second coding agent's own scheduler."""


class HostedCiExecution(Closed, frozen=True, tag_field="provider", tag="hosted_ci"):
    """Execution in hosted CI."""

    hosted_ci: HostedCi


class CustomExecution(Closed, frozen=True, tag_field="provider", tag="custom"):
    """Execution by a runner of the customer's own."""

    custom: CustomHost


Execution = AgentAExecution | AgentBExecution | HostedCiExecution | CustomExecution


class Escalation(Closed, frozen=True):
    """The help for a run that cannot go on."""

    destination: Text500
    instructions: Annotated[str, Meta(min_length=1, max_length=2000)]


# ---- error-to-draft-pr@4.0.0 (R-PB-17, R-PB-21 to R-PB-26, R-PB-28)


class RepositoryRunner(Closed, frozen=True):
    """The worker of a repair, and its repository."""

    provider: Provider
    repository: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=500,
            pattern=patterns.HTTPS_REPOSITORY,
            description="Absolute https URL without user information, query or fragment.",
        ),
    ]
    default_branch: Name
    environment: Environment | UnsetType = UNSET


class ReviewRequired(Closed, frozen=True, tag_field="mode", tag="review_required"):
    """A draft pull request that a human reviews and merges."""


class AutoMerge(Closed, frozen=True, tag_field="mode", tag="auto_merge"):
    """A ready pull request that the provider itself merges once the named checks have passed."""

    merge_method: Literal["squash", "merge", "rebase"]
    required_status_checks: Annotated[
        tuple[Name, ...], Meta(min_length=1, max_length=50, extra_json_schema={"uniqueItems": True})
    ]
    provider_managed: Confirmed
    branch_protection_required: Confirmed
    bypass_forbidden: Confirmed


CodeDelivery = ReviewRequired | AutoMerge


class Materiality(Closed, frozen=True):
    """The evidence of a case that may trigger a run."""

    minimum_event_count: Annotated[int, Meta(ge=1, le=1000000000)]
    maximum_last_seen_age_seconds: Annotated[int, Meta(ge=60, le=31622400)]


class CaseTrigger(Closed, frozen=True):
    """The pace of receipts, and the cases that get them."""

    max_cases_per_sweep: Annotated[int, Meta(ge=1, le=100)]
    cooldown_seconds: Annotated[int, Meta(ge=60, le=604800)]
    materiality: Materiality


class Scope(Closed, frozen=True):
    """The limits of one pull request, and the tests it has to pass."""

    allowed_paths: Annotated[tuple[Text500, ...], Meta(min_length=1, max_length=100)]
    test_commands: Annotated[tuple[Text500, ...], Meta(min_length=1, max_length=30)]
    max_files_changed: Annotated[int, Meta(ge=1, le=100)]
    max_changed_lines: Annotated[int, Meta(ge=1, le=10000)]


class CaseBudgets(Closed, frozen=True):
    """Limits for the charges of the server. Days are trailing windows of 86400 s."""

    max_runs_per_day: RunsPerDay
    max_prs_per_day: PrsPerDay
    max_attempts_per_case_revision: AttemptsPerRevision
    max_turns_per_run: TurnsPerRun
    max_runtime_seconds: RuntimeSeconds
    max_cost_usd_per_run: CostUsd


class VerificationWindow(Closed, frozen=True):
    """The time for which a deploy is watched, and the traffic for its proof. The wait is at least the window."""

    observation_window_seconds: Seconds30Days
    max_wait_seconds: Seconds30Days
    min_sample_size: Annotated[int, Meta(ge=1, le=10000000)]


class ErrorToDraftPrBindings(Closed, frozen=True):
    """Choices of an owner for `error-to-draft-pr`. Everything else is locked."""

    automation_id: AutomationId
    name: Name
    runner: RepositoryRunner
    execution: Execution
    trigger: CaseTrigger
    scope: Scope
    budgets: CaseBudgets
    traffic_sample_event: EventName
    verification: VerificationWindow
    escalation: Escalation
    code_delivery: CodeDelivery = ReviewRequired()


class ErrorToDraftPrAssertions(Closed, frozen=True):
    """Statements of the owner about the outside. The last two have to be true for auto_merge."""

    repository_pull_request_access_confirmed: bool
    ci_proof_callback_configured: bool
    deploy_ingest_configured: bool
    provider_auto_merge_access_confirmed: bool = False
    branch_protection_required_checks_confirmed: bool = False


class RenderErrorToDraftPr(Closed, frozen=True):
    """Render request of `error-to-draft-pr`."""

    version: Literal["4.0.0"]
    bindings: ErrorToDraftPrBindings
    readiness_assertions: ErrorToDraftPrAssertions


# ---- weekly-funnel-review@2.0.0 (R-PB-29 to R-PB-32)


class ReportRunner(Closed, frozen=True):
    """The worker of a report, without a repository."""

    provider: Provider
    environment: Environment | UnsetType = UNSET


class Schedule(Closed, frozen=True):
    """When a report is due, in local time of an IANA zone."""

    cron: Annotated[
        str,
        Meta(
            min_length=5,
            max_length=200,
            description="Five numeric fields of `*`, `,`, `-`, `/`; the minute is one number; fires at least yearly.",
        ),
    ]
    timezone: Annotated[str, Meta(min_length=1, max_length=100, description="An IANA time zone name.")]
    start_window_seconds: Annotated[int, Meta(ge=60, le=86400)]


class Funnel(Closed, frozen=True):
    """The approved events in their order, and the period that is compared with the one before."""

    events: Annotated[tuple[EventName, ...], Meta(min_length=2, max_length=20, extra_json_schema={"uniqueItems": True})]
    period_days: Annotated[int, Meta(ge=1, le=90)]
    minimum_sample_size: Annotated[int, Meta(ge=1, le=100000)]


class ReportBudgets(Closed, frozen=True):
    """Limits for the charges of the server. Days are trailing windows of 86400 s."""

    max_runs_per_day: RunsPerDay
    max_turns_per_run: TurnsPerRun
    max_runtime_seconds: RuntimeSeconds
    max_cost_usd_per_run: CostUsd


class WeeklyFunnelReviewBindings(Closed, frozen=True):
    """Choices of an owner for `weekly-funnel-review`. Everything else is locked."""

    automation_id: AutomationId
    name: Name
    runner: ReportRunner
    execution: Execution
    schedule: Schedule
    funnel: Funnel
    budgets: ReportBudgets
    escalation: Escalation


class WeeklyFunnelReviewAssertions(Closed, frozen=True):
    """Statements of the owner about the outside."""

    scheduler_execution_configured: bool


class RenderWeeklyFunnelReview(Closed, frozen=True):
    """Render request of `weekly-funnel-review`."""

    version: Literal["2.0.0"]
    bindings: WeeklyFunnelReviewBindings
    readiness_assertions: WeeklyFunnelReviewAssertions


Bindings = ErrorToDraftPrBindings | WeeklyFunnelReviewBindings
Assertions = ErrorToDraftPrAssertions | WeeklyFunnelReviewAssertions


# ---- the operations


RenderBody = Annotated[Any, one_of(RenderErrorToDraftPr, RenderWeeklyFunnelReview)]
"""A render request as it is published."""


class RenderRequest(Closed, frozen=True):
    """Any render request as it is decoded: the playbook in the path says afterwards which one it must be."""

    version: str
    bindings: dict[str, Any]
    readiness_assertions: dict[str, Any]


class PlaybookQuery(msgspec.Struct, frozen=True):
    """Query of the detail: a published version, the latest when omitted (R-PB-03)."""

    version: Annotated[str, Meta(max_length=40, pattern=patterns.VERSION)] | None = None


class PlaybookRef(Closed, frozen=True):
    """A published playbook version by id, version and hash (G-117)."""

    id: PlaybookId
    version: str
    template_hash: Sha256


class RelatedOperation(msgspec.Struct, frozen=True):
    """An operation that belongs to carrying out a playbook."""

    operation_id: str
    method: Literal["GET", "POST", "PUT", "PATCH"]
    path: str


class PlaybookEndpoints(msgspec.Struct, frozen=True):
    """The operations that read and render a playbook."""

    detail: str
    render: str


class Playbook(msgspec.Struct, frozen=True, kw_only=True):
    """A catalogue entry: one immutable version (R-PB-02)."""

    kind: Literal["automation_playbook"] = "automation_playbook"
    id: PlaybookId
    version: str
    latest: bool
    title: str
    description: str
    trigger_kind: Literal["unhandled_cases", "schedule"]
    output_kind: Literal["pull_request", "funnel_review"]
    locked_invariants: dict[str, Any]
    render_request_schema: dict[str, Any]
    run_output_schema: dict[str, Any]
    related_operations: list[RelatedOperation]
    latest_version: str
    available_versions: list[str]
    endpoints: PlaybookEndpoints
    template_hash: Sha256
    next_action: str


class PlaybookCatalog(msgspec.Struct, frozen=True, kw_only=True):
    """Every template at its latest version (R-PB-01)."""

    kind: Literal["automation_playbook_catalog"] = "automation_playbook_catalog"
    count: int
    version_policy: Literal["immutable_semver"] = "immutable_semver"
    list_policy: Literal["latest_version_per_template"] = "latest_version_per_template"
    playbooks: list[Playbook]
    next_action: str


class Gap(msgspec.Struct, frozen=True):
    """A condition for enabling an automation."""

    code: str
    message: str


# What a run of each playbook hands over (R-AUT-46 to R-AUT-48): published with the playbook, fixed by its version.
# The parts of a self-healing output name their binding facts and may carry more of the record they come from; the
# outputs themselves and the findings of a review are closed.

Text1000 = Annotated[str, Meta(min_length=1, max_length=1000)]
Text2000 = Annotated[str, Meta(min_length=1, max_length=2000)]
Columns = tuple[Name, ...]


# ---- error-to-draft-pr@4.0.0


class OutputPullRequest(msgspec.Struct, frozen=True):
    """The one pull request, as its grant bound it."""

    grant_id: str
    delivery_mode: Literal["review_required", "auto_merge"]
    draft: bool
    head_branch: str
    head_sha: str


class OutputCheck(msgspec.Struct, frozen=True):
    """One required check, and how it ended."""

    name: str
    conclusion: str


class OutputProviderProof(msgspec.Struct, frozen=True):
    """The last observation of trusted CI. For auto_merge, also the one before the grant.

    That is: the required checks as they passed, protection enforced, no bypass, auto-merge still off (R-AUT-42).
    """

    proof_id: str
    observation: str
    head_sha: str
    required_status_checks: tuple[OutputCheck, ...]
    branch_protection_enforced: bool | None
    bypass_used: bool | None
    auto_merge_enabled: bool | None


class OutputAutoMergeReceipt(msgspec.Struct, frozen=True):
    """The provider's own auto-merge, enabled under its separate grant."""

    grant_id: str
    head_sha: str
    merge_method: Literal["squash", "merge", "rebase"]


class OutputDeploy(msgspec.Struct, frozen=True):
    """The trusted CI deploy of the proven commit."""

    deploy_id: str
    sha: str
    environment: str


class OutputSample(msgspec.Struct, frozen=True):
    """The traffic that verification counted."""

    event: str
    count: int
    minimum: int


class OutputVerification(Closed, frozen=True):
    """The result of the deploy."""

    outcome: Literal["pending", "no_recurrence", "recurred", "insufficient_traffic"]
    sample: OutputSample | None
    passed: bool


class SelfHealingOutput(Closed, frozen=True):
    """Output of `error-to-draft-pr` (R-AUT-46)."""

    run_id: str
    status: Literal["draft_pr_opened", "verifying", "succeeded", "failed", "escalated", "cancelled"]
    code_delivery: CodeDelivery
    pull_request: OutputPullRequest
    provider_proof: OutputProviderProof
    auto_merge_receipt: OutputAutoMergeReceipt | None
    deploy: OutputDeploy
    verification: OutputVerification


# ---- weekly-funnel-review@2.0.0


class MetricFinding(Closed, frozen=True, tag_field="kind", tag="metric"):
    """A number of the source, with its change."""

    metric: Name
    unit: Name
    prior_value: float | None
    current_value: float | None
    change: float | None
    source_columns: Columns


class HypothesisFinding(Closed, frozen=True, tag_field="kind", tag="hypothesis"):
    """A guess worth a human's time, never a claim of cause."""

    rank: Annotated[int, Meta(ge=1, le=100)]
    title: Name
    rationale: Text2000
    expected_impact: Text1000
    confidence: Literal["low", "medium", "high"]
    evidence_columns: Columns
    suggested_human_next_step: Text1000


class ReadinessGapFinding(Closed, frozen=True, tag_field="kind", tag="readiness_gap"):
    """A gap that limited the review."""

    code: Annotated[str, Meta(min_length=1, max_length=160)]
    message: Text2000


Finding = MetricFinding | HypothesisFinding | ReadinessGapFinding


class FunnelReviewOutput(Closed, frozen=True):
    """Output of `weekly-funnel-review` (R-AUT-47): private, untrusted, without authority."""

    kind: Literal["funnel_review"]
    period_start: int
    period_end: int
    source_hash: Sha256
    findings: Annotated[tuple[Finding, ...], Meta(max_length=100)]
    limitations: Annotated[tuple[Text2000, ...], Meta(max_length=20)]
