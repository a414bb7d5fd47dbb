"""How onboarding is shown: the state of its status, its answers, its map (R-ONB-16 to R-ONB-23, R-MAP-01)."""

from __future__ import annotations

from typing import Any

from projections.onboarding.lifecycle import OnboardingRow
from projections.onboarding.signal_map import SignalMapRow
from schemas.onboarding.lifecycle import (
    ApprovedState,
    EvidenceStatus,
    OnboardingState,
    OpenProofSession,
    PlannedState,
    ProvingState,
    Receipt,
    SatisfiedProofSession,
    VerifiedState,
)
from schemas.onboarding.plan import Plan, SourceSnapshot
from schemas.onboarding.proof import (
    PROOF_HEADER,
    PROOF_PROPERTY,
    PROOF_VARIABLE,
    CiMarker,
    OneTimeMarkers,
    ProofStarted,
    RuntimeMarker,
    VerifyAnswer,
)
from schemas.onboarding.signal_map import SignalMap
from service.onboarding.commands import ProofBegun, Verified
from service.onboarding.guidance import next_action
from service.onboarding.shapes import reshape
from statemachines.onboarding import stored
from statemachines.onboarding.lifecycle import Status


def state(row: OnboardingRow) -> OnboardingState:
    """Show an onboarding; what belongs to another status is absent."""
    match Status(row.status):
        case Status.PLANNED:
            return PlannedState(**_common(row), next_action=next_action(Status.PLANNED, row.project_id))
        case Status.APPROVED:
            assert row.approved_at is not None
            action = next_action(Status.APPROVED, row.project_id)
            return ApprovedState(**_common(row), next_action=action, approved_at=row.approved_at)
        case Status.PROVING:
            return _proving(row)
        case Status.VERIFIED:
            return _verified(row)
        case Status.ABSENT:
            raise AssertionError("an onboarding that is not there has no row")


def proof_started(begun: ProofBegun) -> ProofStarted:
    """Show an open proof session with its markers: the only time that they are shown (R-ONB-28 to R-ONB-30)."""
    markers = OneTimeMarkers(
        runtime=RuntimeMarker(PROOF_PROPERTY, begun.runtime_marker, PROOF_VARIABLE, PROOF_PROPERTY),
        ci=CiMarker(PROOF_HEADER, begun.ci_marker, PROOF_VARIABLE),
    )
    return ProofStarted(state=_proving(begun.row), one_time_markers=markers)


def verify_answer(verified: Verified) -> VerifyAnswer:
    """Show what a verify has found (R-ONB-54)."""
    shown = state(verified.row)
    assert isinstance(shown, ProvingState | VerifiedState), "other states are refused"
    return VerifyAnswer(ok=verified.ok, state=shown, remaining=verified.remaining)


def signal_map(row: SignalMapRow) -> SignalMap:
    """Show an approved plan as the map of a project's events and failures (R-MAP-01)."""
    plan = reshape(row.plan, Plan)
    return SignalMap(
        project_id=row.project_id,
        plan_sha256=row.plan_sha256,
        business_question=plan.business_question,
        plan_markdown=plan.plan_markdown,
        source_snapshot=plan.source_snapshot,
        historical_evidence=plan.historical_evidence,
        evidence_status=evidence_status(row.plan, row.receipt),
        milestones=plan.milestones,
        failures=plan.failures,
        deploy=plan.deploy,
        receipt=None if row.receipt is None else reshape(row.receipt, Receipt),
    )


def evidence_status(plan: stored.Plan, receipt: stored.Receipt | None) -> EvidenceStatus:
    """What history and the source have established: history alone never verifies a source (R-ONB-15, R-MAP-03)."""
    return EvidenceStatus(
        historical="not_established" if plan.historical_evidence is None else "historically_observed",
        source="pending" if receipt is None else receipt.evidence_status,
    )


def _proving(row: OnboardingRow) -> ProvingState:
    session = row.session
    assert session is not None
    return ProvingState(
        **_common(row),
        next_action=next_action(Status.PROVING, row.project_id),
        implementation_source_snapshot=reshape(session.implementation_source_snapshot, SourceSnapshot),
        proof_session=OpenProofSession(session.proof_session_id, "open", session.started_at, session.expires_at),
    )


def _verified(row: OnboardingRow) -> VerifiedState:
    session = row.session
    assert session is not None
    assert row.receipt is not None
    return VerifiedState(
        **_common(row),
        next_action=None,
        implementation_source_snapshot=reshape(session.implementation_source_snapshot, SourceSnapshot),
        proof_session=SatisfiedProofSession(
            session.proof_session_id, "satisfied", session.started_at, session.expires_at
        ),
        receipt=reshape(row.receipt, Receipt),
    )


def _common(row: OnboardingRow) -> dict[str, Any]:
    return {
        "installation_complete": row.receipt is not None,
        "evidence_status": evidence_status(row.plan, row.receipt),
        "etag": row.etag,
        "contract_version": 3,
        "project_id": row.project_id,
        "onboarding_id": row.id,
        "revision": row.state_revision,
        "plan_sha256": row.plan_sha256,
        "updated_at": row.updated_at,
        "plan": reshape(row.plan, Plan),
    }
