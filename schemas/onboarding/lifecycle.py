"""Wire contracts of onboarding: the plan, the four states with their proof session, and the receipt.

Every object is closed: an unknown key is refused at every level (R-ONB-01 to R-ONB-35). The shapes under a plan are
also what the onboarding and signal map events hold; within `/v1` their bounds only ever widen (G-013), so stored
plans stay readable.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta

from schemas.kernel.shape import END, SAFE_INTEGER, Closed, Identifier, SafeEpoch

MAX_PLAN_BYTES = 524288
MAX_PROOF_BYTES = 4096
PROOF_PROPERTY: Final = "service_onboarding_proof"
PROOF_VARIABLE: Final = "SERVICE_ONBOARDING_PROOF"
PROOF_HEADER: Final = "X-Service-Onboarding-Proof"

Sha256 = Annotated[str, Meta(min_length=64, max_length=64, pattern=f"^[0-9a-f]{{64}}{END}")]
GitSha = Annotated[str, Meta(min_length=7, max_length=64, pattern=f"^[0-9a-f]{{7,64}}{END}")]
QuotedTag = Annotated[str, Meta(pattern=f'^"[A-Za-z0-9._:-]+"{END}')]
RowCount = Annotated[int, Meta(ge=1, le=SAFE_INTEGER)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
PropertyName = Annotated[str, Meta(min_length=1, max_length=160)]
Meaning = Annotated[str, Meta(min_length=1, max_length=1000)]
ObservedProperties = Annotated[tuple[PropertyName, ...], Meta(max_length=100)]

Boundary = Literal["browser_provider", "server_provider"]


# ---- the plan


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
    """A failure exit to be captured as an exception; exactly one of a plan is safe to provoke (R-ONB-06)."""

    marker: Name
    meaning: Meaning
    provider_boundary: Boundary
    context: tuple[PropertyName, ...]
    safe_live_proof: bool
    targets: Targets


class Deploy(Closed, frozen=True):
    """Where the instrumented commit is to be deployed (R-ONB-07)."""

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
    """What the audited window of provider history held; never proof of current placement (R-ONB-12 to R-ONB-15)."""

    status: Literal["historically_observed"]
    source: Literal["provider_cloud"]
    provider_project_id: Annotated[int, Meta(ge=1, le=SAFE_INTEGER)]
    observed_at: SafeEpoch
    window: Window
    query_receipt_sha256: Sha256
    observations: Annotated[tuple[AnalyticsObservation | ErrorObservation, ...], Meta(min_length=1, max_length=200)]


class Plan(Closed, frozen=True):
    """What a human approves as a whole, by its hash (R-ONB-02, G-081)."""

    business_question: Annotated[str, Meta(min_length=1, max_length=1000)]
    plan_markdown: Annotated[str, Meta(min_length=1, max_length=65536)]
    source_snapshot: SourceSnapshot
    historical_evidence: HistoricalEvidence | None
    milestones: Annotated[tuple[Milestone, ...], Meta(min_length=1)]
    failures: Annotated[tuple[Failure, ...], Meta(min_length=1)]
    deploy: Deploy


# ---- requests


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


class ProofRequest(Closed, frozen=True):
    """Body of a proof start: the snapshot of the final committed tree (R-ONB-51)."""

    implementation_source_snapshot: SourceSnapshot


# ---- states


class EvidenceStatus(Closed, frozen=True):
    """What history and the source have established so far (R-ONB-17)."""

    historical: Literal["not_established", "historically_observed"]
    source: Literal["pending", "source_verified"]


class NextOperation(Closed, frozen=True):
    """The next call, with a concrete path (G-087)."""

    method: Literal["POST"]
    path: str


class NextAction(Closed, frozen=True):
    """What to do now (R-ONB-24)."""

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
    """One milestone as it was seen under the session's marker."""

    event: Name
    provider_boundary: Boundary
    required_properties: tuple[PropertyName, ...]
    observed_properties: tuple[PropertyName, ...]
    row_count: RowCount


class ErrorReceipt(Closed, frozen=True):
    """The safe error as it was seen under the session's marker."""

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
