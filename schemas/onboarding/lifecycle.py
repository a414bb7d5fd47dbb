"""Wire contracts of onboarding: how a plan comes in, the four states with their proof session, and the receipt.

Every object is closed: an unknown key is refused at every level (R-ONB-16 to R-ONB-27, R-ONB-35, R-ONB-42, R-ONB-47).
Events hold the receipt as it is here; within `/v1` its bounds only ever widen (G-013).
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from schemas.kernel.shape import SAFE_INTEGER, Closed, Identifier, SafeEpoch
from schemas.onboarding.plan import Boundary, Name, Plan, PropertyName, QuotedTag, RowCount, Sha256, SourceSnapshot


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

    event: Name
    provider_boundary: Boundary
    required_properties: tuple[PropertyName, ...]
    observed_properties: tuple[PropertyName, ...]
    row_count: RowCount


class ErrorReceipt(Closed, frozen=True):
    """The safe error seen under the session's marker."""

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
