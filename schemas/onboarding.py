"""Wire contracts of onboarding: plan, signal map, proof, states, receipt.

Every object is closed: an unknown key is refused at every level (R-ONB-01 to R-ONB-15). The shapes under a plan are
also what the onboarding and signal map events hold; within `/v1` their bounds only ever widen (G-013), so stored
plans stay readable.
"""

from enum import Enum
from typing import Annotated, ClassVar, Final, Literal

from msgspec import Meta

from schemas.kernel import patterns
from schemas.kernel.origins import Origins, origins
from schemas.kernel.shape import SAFE_INTEGER, Closed, Identifier, SafeEpoch

# Wire contract of an onboarding's plan, part by part, and the forms that its texts and numbers have.

MAX_PLAN_BYTES = 524288

Sha256 = Annotated[str, Meta(min_length=64, max_length=64, pattern=patterns.SHA256)]
GitSha = Annotated[str, Meta(min_length=7, max_length=64, pattern=patterns.GIT_SHA)]
QuotedTag = Annotated[str, Meta(pattern=patterns.QUOTED_TAG)]
RowCount = Annotated[int, Meta(ge=1, le=SAFE_INTEGER)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
PropertyName = Annotated[str, Meta(min_length=1, max_length=160)]
Meaning = Annotated[str, Meta(min_length=1, max_length=1000)]
ObservedProperties = Annotated[tuple[PropertyName, ...], Meta(max_length=100)]

Boundary = Literal["browser_provider", "server_provider"]


class SourceSnapshot(Closed, frozen=True):
    """A source tree by its commit and content hash (R-ONB-01)."""

    git_head_sha: GitSha | None
    source_fingerprint_sha256: Sha256
    source_fingerprint_algorithm: Literal["service-source-tree-sha256-v1"]


class SourceTarget(Closed, frozen=True):
    """A place in the source: a repository-relative file and exact text in it (R-ONB-08)."""

    file: Annotated[str, Meta(min_length=1, max_length=800)]
    anchor: Annotated[str, Meta(min_length=1, max_length=500)]


Targets = Annotated[tuple[SourceTarget, ...], Meta(min_length=1)]


class Milestone(Closed, frozen=True):
    """A durable success to be captured as an analytics event (R-ONB-05)."""

    event: Name
    meaning: Meaning
    provider_boundary: Boundary
    properties: tuple[PropertyName, ...]
    targets: Targets


class Failure(Closed, frozen=True):
    """A failure exit to capture as an exception. Exactly one of a plan is safe to provoke (R-ONB-06)."""

    marker: Name
    meaning: Meaning
    provider_boundary: Boundary
    context: tuple[PropertyName, ...]
    safe_live_proof: bool
    targets: Targets


class Deploy(Closed, frozen=True):
    """The target of the deploy of the instrumented commit (R-ONB-07)."""

    environment: Annotated[str, Meta(min_length=1, max_length=160)]
    sha_source: Literal["git_head"]
    targets: Targets


class Window(Closed, frozen=True, rename={"from_": "from"}):
    """The audited span of provider history."""

    from_: SafeEpoch
    to: SafeEpoch


class AnalyticsObservation(Closed, frozen=True, tag_field="kind", tag="analytics"):
    """An analytics event found in the provider's history: counts and names only."""

    event: Name
    observed_properties: ObservedProperties
    row_count: RowCount


class ErrorObservation(Closed, frozen=True, tag_field="kind", tag="error"):
    """An error issue found in the provider's history: counts and names only."""

    issue_id: Identifier
    observed_properties: ObservedProperties
    row_count: RowCount


class HistoricalEvidence(Closed, frozen=True):
    """The audited window of provider history, never proof of current placement (R-ONB-12 to R-ONB-15)."""

    PROVENANCE: ClassVar[Origins] = origins(provider="observations")

    status: Literal["historically_observed"]
    source: Literal["provider_cloud"]
    provider_project_id: Annotated[int, Meta(ge=1, le=SAFE_INTEGER)]
    observed_at: SafeEpoch
    window: Window
    query_receipt_sha256: Sha256
    observations: Annotated[tuple[AnalyticsObservation | ErrorObservation, ...], Meta(min_length=1, max_length=200)]


class Plan(Closed, frozen=True):
    """The plan that a human approves as a whole, by its hash (R-ONB-02, G-081)."""

    business_question: Annotated[str, Meta(min_length=1, max_length=1000)]
    plan_markdown: Annotated[str, Meta(min_length=1, max_length=65536)]
    source_snapshot: SourceSnapshot
    historical_evidence: HistoricalEvidence | None
    milestones: Annotated[tuple[Milestone, ...], Meta(min_length=1)]
    failures: Annotated[tuple[Failure, ...], Meta(min_length=1)]
    deploy: Deploy


# Wire contracts of onboarding: how a plan comes in, the four states with their proof session, and the receipt. Every
# object is closed: an unknown key is refused at every level (R-ONB-16 to R-ONB-27, R-ONB-35, R-ONB-42, R-ONB-47).
# Events hold the receipt as it is here; within `/v1` its bounds only ever widen (G-013).


class StartRequest(Closed, frozen=True):
    """Body of a start (R-ONB-42)."""

    intent: Literal["start"]
    plan: Plan


class ApproveRequest(Closed, frozen=True, tag_field="decision", tag="approve"):
    """Approval of the plan with this hash (R-ONB-47)."""

    plan_sha256: Sha256


class ReplaceRequest(Closed, frozen=True, tag_field="decision", tag="replace"):
    """Another plan in place of the one with this hash (R-ONB-47)."""

    plan_sha256: Sha256
    replacement_plan: Plan


ReviewRequest = ApproveRequest | ReplaceRequest


class EvidenceStatus(Closed, frozen=True):
    """The facts established from history and the source so far (R-ONB-17)."""

    historical: Literal["not_established", "historically_observed"]
    source: Literal["pending", "source_verified"]


class NextOperation(Closed, frozen=True):
    """The next call, with a concrete path (G-087)."""

    method: Literal["POST"]
    path: str


class NextAction(Closed, frozen=True):
    """The next action (R-ONB-24)."""

    id: Literal["review_exact_plan", "instrument_and_start_proof", "exercise_and_verify"]
    instruction: str
    requires_human: bool
    operation: NextOperation
    checklist: Annotated[tuple[str, ...], Meta(min_length=4, max_length=7)]
    completion_condition: str
    guide_anchor: str


class OpenProofSession(Closed, frozen=True):
    """The session whose markers count now (R-ONB-21)."""

    proof_session_id: Identifier
    status: Literal["open"]
    started_at: SafeEpoch
    expires_at: SafeEpoch


class SatisfiedProofSession(Closed, frozen=True):
    """The session that the receipt rests on (R-ONB-22)."""

    proof_session_id: Identifier
    status: Literal["satisfied"]
    started_at: SafeEpoch
    expires_at: SafeEpoch


class AnalyticsReceipt(Closed, frozen=True):
    """One milestone seen under the session's marker."""

    PROVENANCE: ClassVar[Origins] = origins(provider="observed_properties row_count")

    event: Name
    provider_boundary: Boundary
    required_properties: tuple[PropertyName, ...]
    observed_properties: tuple[PropertyName, ...]
    row_count: RowCount


class ErrorReceipt(Closed, frozen=True):
    """The safe error seen under the session's marker."""

    PROVENANCE: ClassVar[Origins] = origins(provider="observed_context row_count")

    marker: Name
    provider_boundary: Boundary
    required_context: tuple[PropertyName, ...]
    observed_context: tuple[PropertyName, ...]
    row_count: RowCount


class DeployReceipt(Closed, frozen=True):
    """The trusted deploy as it was seen under the session's CI marker."""

    environment: Annotated[str, Meta(min_length=1, max_length=160)]
    source_snapshot: SourceSnapshot
    row_count: RowCount


class Receipt(Closed, frozen=True):
    """Proof that the approved plan is in the running source (R-ONB-35)."""

    evidence_status: Literal["source_verified"]
    source_verified_at: SafeEpoch
    analytics: Annotated[tuple[AnalyticsReceipt, ...], Meta(min_length=1)]
    error: ErrorReceipt
    deploy: DeployReceipt


class Common(Closed, frozen=True, kw_only=True):
    """What every state of an onboarding shows (R-ONB-16)."""

    installation_complete: bool
    evidence_status: EvidenceStatus
    etag: QuotedTag
    contract_version: Literal[3]
    project_id: Identifier
    onboarding_id: Identifier
    revision: Annotated[int, Meta(ge=1, le=SAFE_INTEGER)]
    plan_sha256: Sha256
    updated_at: SafeEpoch
    plan: Plan


class PlannedState(Common, frozen=True, kw_only=True, tag_field="status", tag="planned"):
    """A plan that waits for review (R-ONB-19)."""

    next_action: NextAction


class ApprovedState(Common, frozen=True, kw_only=True, tag_field="status", tag="approved"):
    """A plan that is approved and not yet implemented (R-ONB-20)."""

    next_action: NextAction
    approved_at: SafeEpoch


class ProvingState(Common, frozen=True, kw_only=True, tag_field="status", tag="proving"):
    """A plan that is implemented, with its proof session open (R-ONB-21)."""

    next_action: NextAction
    implementation_source_snapshot: SourceSnapshot
    proof_session: OpenProofSession


class VerifiedState(Common, frozen=True, kw_only=True, tag_field="status", tag="verified"):
    """A plan that execution has proven (R-ONB-22)."""

    next_action: None
    implementation_source_snapshot: SourceSnapshot
    proof_session: SatisfiedProofSession
    receipt: Receipt


OnboardingState = PlannedState | ApprovedState | ProvingState | VerifiedState


# Wire contract of the signal map: the approved plan as reads and queries see it (R-MAP-01, R-MAP-02).


class SignalMap(Closed, frozen=True, kw_only=True):
    """The meaning of each event and failure. Trusted as source semantics only with a receipt (R-MAP-03)."""

    project_id: Identifier
    contract_version: Literal[3] = 3
    mode: Literal["onboarding"] = "onboarding"
    plan_sha256: Sha256
    business_question: Annotated[str, Meta(min_length=1, max_length=1000)]
    plan_markdown: Annotated[str, Meta(min_length=1, max_length=65536)]
    source_snapshot: SourceSnapshot
    historical_evidence: HistoricalEvidence | None
    evidence_status: EvidenceStatus
    milestones: Annotated[tuple[Milestone, ...], Meta(min_length=1)]
    failures: Annotated[tuple[Failure, ...], Meta(min_length=1)]
    deploy: Deploy
    receipt: Receipt | None


# Wire contracts of a proof: its start, the marker pair, and what remains (R-ONB-28 to R-ONB-34, R-ONB-51).

MAX_PROOF_BYTES = 4096
PROOF_PROPERTY: Final = "service_onboarding_proof"
PROOF_VARIABLE: Final = "SERVICE_ONBOARDING_PROOF"
PROOF_HEADER: Final = "X-Service-Onboarding-Proof"

MarkerValue = Annotated[str, Meta(min_length=20, max_length=1000)]


class ProofRequest(Closed, frozen=True):
    """Body of a proof start: the snapshot of the final committed tree (R-ONB-51)."""

    implementation_source_snapshot: SourceSnapshot


class RuntimeMarker(Closed, frozen=True):
    """The place of the marker in the running product (R-ONB-28)."""

    property_name: Literal["service_onboarding_proof"]
    value: MarkerValue
    environment_variable: Literal["SERVICE_ONBOARDING_PROOF"]
    browser_session_storage_key: Literal["service_onboarding_proof"]


class CiMarker(Closed, frozen=True):
    """The place of the marker in the deploy job (R-ONB-29)."""

    header_name: Literal["X-Service-Onboarding-Proof"]
    value: MarkerValue
    environment_variable: Literal["SERVICE_ONBOARDING_PROOF"]


class OneTimeMarkers(Closed, frozen=True):
    """The pair that is shown once (R-ONB-30)."""

    runtime: RuntimeMarker
    ci: CiMarker


class ProofStarted(Closed, frozen=True):
    """Answer to a proof start (R-ONB-52)."""

    state: ProvingState
    one_time_markers: OneTimeMarkers


class ProofBlocker(Enum):
    """The reason why a possible effect does not count (R-ONB-34)."""

    PROJECT_MISMATCH = "proof_session_project_mismatch"
    NOT_ACTIVE = "proof_session_not_active"
    OUTSIDE_WINDOW = "proof_session_outside_window"
    RUNTIME_MARKER_INVALID = "runtime_marker_binding_invalid"
    CI_CREDENTIAL_UNAVAILABLE = "ci_credential_binding_unavailable"
    GIT_SHA_MISSING = "source_git_sha_missing"
    ANALYTICS_READ_FAILED = "analytics_read_failed"
    SAFE_ERROR_READ_FAILED = "safe_error_read_failed"
    DEPLOY_READ_FAILED = "deploy_read_failed"
    DEPLOY_NOT_OBSERVED = "deploy_not_observed"


class RemainingMilestone(Closed, frozen=True):
    """An approved event that was not seen at all."""

    milestone_index: Annotated[int, Meta(ge=0)]
    event: Name
    provider_boundary: Boundary


class RemainingProperties(Closed, frozen=True):
    """An approved event that was seen, but never with all its properties at once."""

    milestone_index: Annotated[int, Meta(ge=0)]
    event: Name
    properties: Annotated[tuple[PropertyName, ...], Meta(min_length=1)]
    requirement: Literal["present_and_nonempty_together"] = "present_and_nonempty_together"


class RemainingAnalytics(Closed, frozen=True):
    """The analytics still missing from the proof (R-ONB-31)."""

    blockers: tuple[ProofBlocker, ...] = ()
    milestones: tuple[RemainingMilestone, ...] = ()
    properties: tuple[RemainingProperties, ...] = ()


class RemainingSafeError(Closed, frozen=True):
    """The safe error still missing from the proof (R-ONB-32)."""

    marker: Name
    provider_boundary: Boundary
    marker_missing: bool
    context: tuple[PropertyName, ...]
    blockers: tuple[ProofBlocker, ...] = ()
    context_requirement: Literal["present_and_nonempty_together"] = "present_and_nonempty_together"


class RemainingDeploy(Closed, frozen=True):
    """The deploy still missing from the proof (R-ONB-33)."""

    environment: Annotated[str, Meta(min_length=1, max_length=160)]
    blockers: Annotated[tuple[ProofBlocker, ...], Meta(min_length=1)]


class Remaining(Closed, frozen=True):
    """The gaps of the proof. Every member is empty when the proof is complete."""

    analytics: RemainingAnalytics = RemainingAnalytics()
    safe_error: RemainingSafeError | None = None
    deploy: RemainingDeploy | None = None


class VerifyAnswer(Closed, frozen=True):
    """Answer to a verify (R-ONB-54)."""

    ok: bool
    state: ProvingState | VerifiedState
    remaining: Remaining
