"""Wire contracts of runs and of their bounds (G-106, G-107, G-109, G-113)."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from schemas.cases.case import VerificationStatistics
from schemas.contracts import playbook as playbooks
from schemas.kernel import patterns
from schemas.kernel.origins import Origins, Told, originated, origins, told
from schemas.kernel.shape import Closed, EvidenceSource, PageQuery, WorkflowRun, one_of
from schemas.runs.approval import Approval, Grant, HeadSha
from schemas.runs.receipt import LeaseEpoch, ObjectId, StateRevision

# Wire contract of a run's policy: what its runner may change, and what it must leave alone (G-109).

RUN_POLICY_ORIGINS = origins(
    server="run_id project_id automation_id policy_sha256 policy protected_files protected_directories next_action"
)


@originated
class RunPolicy(Told, frozen=True, kw_only=True):
    """The policy of a run while it is in force. `policy_sha256` is the hash of its canonical JSON.

    A file whose name matches one of `protected_files`, or that lies in one of `protected_directories`, is within the
    scope only if `allowed_paths` names that very file. Names and patterns are in lower case and match any case.
    """

    run_id: str
    project_id: str
    automation_id: str
    policy_sha256: playbooks.Sha256
    policy: dict[str, Any]
    protected_files: list[str]
    protected_directories: list[str]
    next_action: str
    origins: Annotated[Origins, told(RUN_POLICY_ORIGINS)]


# Wire contracts of automation runs: start, progress, usage, cancel, verification, record (G-106, G-107, G-113).
# Every runner body carries the run's current state revision and lease epoch (R-AUT-30). Start takes a receipt and
# nothing else: a runner never supplies payload, time, trust or identity of a trigger (R-AUT-21, R-AUT-27).

RunStatus = Literal["draft_pr_opened", "verifying", "succeeded", "failed", "escalated", "cancelled"]
RunPhase = Literal[
    "run_started",
    "running",
    "human_review",
    "provider_proof_pending",
    "verified_or_reported",
    "stopped",
    "deletion_fenced",
    "external_follow_up_required",
]
# What a runner may report. Any other text is a step that no run has: a conflict (G-106), and no fault of form.
_PHASES = {"enum": ["running"]}
_STATUSES = {"enum": ["draft_pr_opened", "failed", "escalated"]}
Text2000 = Annotated[str, Meta(min_length=1, max_length=2000)]
HttpsUrl = Annotated[str, Meta(min_length=9, max_length=500, pattern=patterns.HTTPS_URL)]
PrNumber = Annotated[int, Meta(ge=1, le=2147483647)]


class StartRun(Closed, frozen=True):
    """The receipt to start the run from."""

    trigger_receipt_id: ObjectId


class RunQuery(PageQuery, frozen=True):
    """Filters of the list."""

    automation_id: playbooks.AutomationId | None = None
    status: RunStatus | None = None
    case_id: ObjectId | None = None


class ReportedPullRequest(Closed, frozen=True):
    """The pull request that the runner opened under its grant."""

    number: PrNumber
    url: HttpsUrl
    head_sha: HeadSha


class UpdateRun(Closed, frozen=True, kw_only=True):
    """One step of the runner: `phase` running, or a `status` with the members it requires."""

    state_revision: StateRevision
    lease_epoch: LeaseEpoch
    phase: Annotated[str, Meta(min_length=1, max_length=100, extra_json_schema=_PHASES)] | UnsetType = UNSET
    status: Annotated[str, Meta(min_length=1, max_length=100, extra_json_schema=_STATUSES)] | UnsetType = UNSET
    reason: Text2000 | UnsetType = UNSET
    summary_md: Annotated[str, Meta(min_length=1, max_length=20000)] | UnsetType = UNSET
    pull_request: ReportedPullRequest | UnsetType = UNSET


class RecordUsage(Closed, frozen=True, kw_only=True):
    """The amounts the runner is about to use. At least one is above 0."""

    state_revision: StateRevision
    lease_epoch: LeaseEpoch
    turns: Annotated[int, Meta(ge=0, le=500)] = 0
    cost_usd: Annotated[float, Meta(ge=0, le=10000, description="US dollars with at most 6 decimals.")] = 0
    runtime_seconds: Annotated[int, Meta(ge=0, le=86400)] = 0
    label: Annotated[str, Meta(min_length=1, max_length=200)] | UnsetType = UNSET


class CancelRun(Closed, frozen=True):
    """The reason for withdrawing service authority. `command_key` may replace the Idempotency-Key."""

    reason: Text2000 | UnsetType = UNSET
    command_key: Annotated[str, Meta(min_length=1, max_length=255, pattern=patterns.VISIBLE_ASCII)] | None = None


class VerifyRun(Closed, frozen=True):
    """An empty object: the server reads traffic and errors itself."""


class Charges(msgspec.Struct, frozen=True):
    """Turns, US dollars and seconds."""

    turns: int
    cost_usd: float
    runtime_seconds: int


class RunLimits(msgspec.Struct, frozen=True):
    """The budgets that applied when the run started."""

    max_runs_per_day: int
    max_prs_per_day: int
    max_attempts_per_case_revision: int
    max_turns_per_run: int
    max_runtime_seconds: int
    max_cost_usd_per_run: float


class RunPullRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The one pull request of the run."""

    number: int
    url: str
    repository: str
    head_branch: str
    base_branch: str
    head_sha: str
    draft: bool
    delivery_mode: Literal["review_required", "auto_merge"]
    grant_id: str
    merge_commit_sha: str | None


class RunCheck(msgspec.Struct, frozen=True):
    """A check, as CI reported it."""

    name: str
    conclusion: str


class RunProviderProof(msgspec.Struct, frozen=True, kw_only=True):
    """The latest proof of a trusted CI. Readiness facts stay once proven."""

    proof_id: str
    observation: Literal["pr_opened", "checks_passed", "auto_merge_enabled", "merged", "closed", "reopened"]
    trusted: Literal[True] = True
    pr_number: int
    head_sha: str
    draft: bool
    required_status_checks: list[RunCheck]
    branch_protection_enforced: bool | None
    bypass_used: bool | None
    auto_merge_enabled: bool | None
    closed_by: str | None
    changed_by_person: bool
    commits: list[str] | None
    recorded_at: int
    ci_run: WorkflowRun | msgspec.UnsetType = msgspec.UNSET


class RunAutoMergeReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The provider's own auto-merge, turned on under its separate grant."""

    grant_id: str
    proof_id: str
    pr_number: int
    head_sha: str
    merge_method: Literal["squash", "merge", "rebase"]
    recorded_at: int


class RunDeploy(msgspec.Struct, frozen=True, kw_only=True):
    """The trusted CI deploy of the proven commit."""

    deploy_id: str
    version: str
    environment: str
    sha: str
    recorded_at: int


class VerificationSample(msgspec.Struct, frozen=True, kw_only=True):
    """The counts that the server took. `counted_by` is there when events by the public DSN are among `count`."""

    event: str
    count: int
    minimum: int
    recurrence_count: int
    observed_from: int
    observed_to: int
    counted_by: Literal["public"] | msgspec.UnsetType = msgspec.UNSET


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """The result for the deploy. `sample` is null until something was counted."""

    outcome: Literal["pending", "no_recurrence", "recurred", "insufficient_traffic"]
    sample: VerificationSample | None
    passed: bool


class OutputParts(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of a self-healing output (R-AUT-46). A part is null until it comes to be."""

    run_id: str
    status: RunStatus | None
    code_delivery: playbooks.CodeDelivery
    pull_request: playbooks.OutputPullRequest | None
    provider_proof: playbooks.OutputProviderProof | None
    auto_merge_receipt: playbooks.OutputAutoMergeReceipt | None
    deploy: playbooks.OutputDeploy | None
    verification: playbooks.OutputVerification | None


class CountedIn(msgspec.Struct, frozen=True, kw_only=True):
    """The environment of the traffic of a verification. `unnamed`: events without an environment count too."""

    environment: str
    unnamed: bool
    looked_at: int
    named: int


FOLLOW_UP_ORIGINS = origins(server="kind grant_id instruction", runner="reference")


@originated
class FollowUp(Told, frozen=True, kw_only=True):
    """An effect outside the service for a person to inspect. The service has not touched it (R-AUT-51)."""

    kind: Literal["inspect_pull_request", "inspect_ci", "inspect_auto_merge", "inspect_deploy"]
    grant_id: str | None
    reference: str
    instruction: str
    origins: Annotated[Origins, told(FOLLOW_UP_ORIGINS)]


_SAMPLE_ORIGINS = origins(
    server="event minimum recurrence_count observed_from observed_to counted_by", provider="count"
)
_VERIFICATION_ORIGINS = origins(server="outcome passed", below={"sample": _SAMPLE_ORIGINS})
_PARTS_ORIGINS: dict[str, Origins] = {
    "pull_request": origins(server="grant_id delivery_mode draft", runner="head_branch head_sha"),
    "provider_proof": origins(
        server="proof_id",
        provider="observation head_sha required_status_checks branch_protection_enforced bypass_used "
        "auto_merge_enabled",
    ),
    "auto_merge_receipt": origins(server="grant_id", provider="head_sha merge_method"),
    "deploy": origins(server="deploy_id", provider="sha environment"),
    "verification": origins(
        server="outcome passed", below={"sample": origins(server="event minimum", provider="count")}
    ),
}
# Of what a CI told, all but ids and times is what it read at the code host.
RUN_ORIGINS = origins(
    server="run_id project_id automation_id playbook policy_sha256 trigger_receipt_id case_id case_revision claim_id "
    "runner_id phase status state_revision lease_epoch lease_expires_at started_at deadline_at resting updated_at "
    "finished_at limits charges scope_checked counted_in evidence_source verification_statistics "
    "report_id idempotent_replay next_action",
    runner="reason",
    below={
        "pull_request": origins(
            server="repository base_branch draft delivery_mode grant_id",
            provider="merge_commit_sha",
            runner="number url head_branch head_sha",
        ),
        "provider_proof": origins(
            server="proof_id trusted changed_by_person recorded_at",
            provider="observation pr_number head_sha draft required_status_checks branch_protection_enforced "
            "bypass_used auto_merge_enabled closed_by commits",
            below={
                "ci_run": origins(server="binding_id issuer", provider="repository ref workflow environment run_id")
            },
        ),
        "auto_merge_receipt": origins(
            server="grant_id proof_id recorded_at", provider="pr_number head_sha merge_method"
        ),
        "deploy": origins(server="deploy_id recorded_at", provider="version environment sha"),
        "verification": _VERIFICATION_ORIGINS,
        "output": origins(
            server="run_id status code_delivery kind period_start period_end source_hash",
            runner="findings limitations",
            below=_PARTS_ORIGINS,
        ),
        "output_parts": origins(server="run_id status code_delivery", below=_PARTS_ORIGINS),
    },
)
RUNS_ORIGINS = origins(server="project_id count next_cursor next_action")
USAGE_ORIGINS = origins(server="run_id charges remaining state_revision idempotent_replay next_action")
CANCELLED_ORIGINS = origins(server="run_id phase status state_revision cancelled_at next_action")
VERIFIED_ORIGINS = origins(
    server="run_id status verification_statistics poll_after_seconds deadline_at reason next_action",
    below={"verification": _VERIFICATION_ORIGINS},
)


@originated
class Run(Told, frozen=True, kw_only=True):
    """A run in full. `status` is null until one of its six values applies, `output` until the run has all its parts.

    The output is that of the run's playbook. The report of a review may be long: lists of runs leave it out.
    `output_parts` has what came to be of a repair's output, however the run ended. A review has none.

    While a person reviews, `resting` is true, and lease and deadline end at the latest moments that are shown.

    `scope_checked` is true once a CI listed the files of the pull request and each was within the contract's scope.
    """

    run_id: str
    project_id: str
    automation_id: str
    playbook: playbooks.PlaybookRef
    policy_sha256: playbooks.Sha256
    trigger_receipt_id: str
    case_id: str | None
    case_revision: int | None
    claim_id: str | None
    runner_id: str
    phase: RunPhase
    status: RunStatus | None
    state_revision: int
    lease_epoch: int
    lease_expires_at: int
    started_at: int
    deadline_at: int
    resting: bool
    updated_at: int
    finished_at: int | None
    limits: RunLimits
    charges: Charges
    approvals: list[Approval]
    grants: list[Grant]
    pull_request: RunPullRequest | None
    provider_proof: RunProviderProof | None
    scope_checked: bool
    auto_merge_receipt: RunAutoMergeReceipt | None
    deploy: RunDeploy | None
    verification: Verification | None
    counted_in: CountedIn | None
    evidence_source: EvidenceSource | None
    verification_statistics: VerificationStatistics | None
    report_id: str | None
    output: Annotated[Any, one_of(playbooks.SelfHealingOutput, playbooks.FunnelReviewOutput, null=True)]
    output_parts: OutputParts | None
    reason: str | None
    external_follow_ups: list[FollowUp]
    idempotent_replay: bool
    next_action: str
    origins: Annotated[Origins, told(RUN_ORIGINS)]


@originated
class RunList(Told, frozen=True):
    """A page of runs, newest first."""

    project_id: str
    runs: list[Run]
    count: int
    next_cursor: str | None
    next_action: str
    origins: Annotated[Origins, told(RUNS_ORIGINS)]


@originated
class UsageRecorded(Told, frozen=True, kw_only=True):
    """The used and the remaining budget of the run."""

    run_id: str
    charges: Charges
    remaining: Charges
    state_revision: int
    idempotent_replay: bool = False
    next_action: str
    origins: Annotated[Origins, told(USAGE_ORIGINS)]


@originated
class CancelledRun(Told, frozen=True, kw_only=True):
    """Service authority is withdrawn. A person has to inspect the remaining effects outside the service."""

    run_id: str
    phase: RunPhase
    status: Literal["cancelled"]
    state_revision: int
    cancelled_at: int
    external_follow_ups: list[FollowUp]
    next_action: str
    origins: Annotated[Origins, told(CANCELLED_ORIGINS)]


@originated
class VerificationAnswer(Told, frozen=True, kw_only=True):
    """The state of verification. `poll_after_seconds` is set with 202, `run` with 200."""

    run_id: str
    status: RunStatus
    verification: Verification
    verification_statistics: VerificationStatistics | None
    poll_after_seconds: int | UnsetType = UNSET
    deadline_at: int | None
    reason: Literal["provider_exceptions_unread"] | UnsetType = UNSET
    run: Run | UnsetType = UNSET
    next_action: str
    origins: Annotated[Origins, told(VERIFIED_ORIGINS)]
