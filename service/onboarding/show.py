"""How an onboarding is shown: its row as the state of its status (R-ONB-16 to R-ONB-23)."""

from __future__ import annotations

from typing import Any

from projections.onboarding.lifecycle import OnboardingRow
from schemas.onboarding.lifecycle import (
    ApprovedState,
    EvidenceStatus,
    OnboardingState,
    OpenProofSession,
    Plan,
    PlannedState,
    ProvingState,
    Receipt,
    SatisfiedProofSession,
    VerifiedState,
)
from service.onboarding.guidance import next_action
from statemachines.onboarding.lifecycle import Status


def show(row: OnboardingRow) -> OnboardingState:
    """Show an onboarding; what belongs to another status is absent."""
    match Status(row.status):
        case Status.PLANNED:
            return PlannedState(**_common(row), next_action=next_action(Status.PLANNED, row.project_id))
        case Status.APPROVED:
            assert row.approved_at is not None
            action = next_action(Status.APPROVED, row.project_id)
            return ApprovedState(**_common(row), next_action=action, approved_at=row.approved_at)
        case Status.PROVING:
            return show_proving(row)
        case Status.VERIFIED:
            return show_verified(row)
        case Status.ABSENT:
            raise AssertionError("an onboarding that is not there has no row")


def show_proving(row: OnboardingRow) -> ProvingState:
    """Show an onboarding whose proof session is open."""
    session = row.session
    assert session is not None
    return ProvingState(
        **_common(row),
        next_action=next_action(Status.PROVING, row.project_id),
        implementation_source_snapshot=session.implementation_source_snapshot,
        proof_session=OpenProofSession(session.proof_session_id, "open", session.started_at, session.expires_at),
    )


def show_verified(row: OnboardingRow) -> VerifiedState:
    """Show an onboarding that is done."""
    session = row.session
    assert session is not None
    assert row.receipt is not None
    return VerifiedState(
        **_common(row),
        next_action=None,
        implementation_source_snapshot=session.implementation_source_snapshot,
        proof_session=SatisfiedProofSession(
            session.proof_session_id, "satisfied", session.started_at, session.expires_at
        ),
        receipt=row.receipt,
    )


def evidence_status(plan: Plan, receipt: Receipt | None) -> EvidenceStatus:
    """What history and the source have established: history alone never verifies a source (R-ONB-15, R-MAP-03)."""
    return EvidenceStatus(
        historical="not_established" if plan.historical_evidence is None else "historically_observed",
        source="pending" if receipt is None else receipt.evidence_status,
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
        "plan": row.plan,
    }
