"""Claims, and the lease lanes of their cases, as reads show them (G-105)."""

from __future__ import annotations

from projections.kernel.projection import Row, projection
from statemachines.kernel.machine import Recorded
from statemachines.runs.claim import CLAIM, Claim
from statemachines.runs.lease import LEASE, Lease


class ClaimRow(Row, frozen=True, kw_only=True):
    """A claim as recorded; the expiry of its lease is computed when it is read."""

    case_id: str
    automation_id: str
    runner_id: str
    receipt_id: str
    run_id: str | None
    status: str
    claimed_at: int
    lease_expires_at: int
    state: Claim


class LeaseRow(Row, frozen=True, kw_only=True):
    """The lane of a case: the ids of its latest receipt, claim and run."""

    case_id: str
    receipt_id: str | None
    claim_id: str | None
    run_id: str | None
    state: Lease


def fold_claim(row: ClaimRow | None, recorded: Recorded) -> ClaimRow:
    """Fold an event of a claim into its row."""
    state = CLAIM.evolve(CLAIM.initial if row is None else row.state, recorded.event)
    return ClaimRow(
        project_id=recorded.project_id,
        id=recorded.originator_id,
        revision=recorded.revision,
        case_id=state.case_id,
        automation_id=state.automation_id,
        runner_id=state.runner_id,
        receipt_id=state.receipt_id,
        run_id=state.run_id,
        status=state.status.value,
        claimed_at=state.claimed_at,
        lease_expires_at=state.lease_expires_at,
        state=state,
    )


def fold_lease(row: LeaseRow | None, recorded: Recorded) -> LeaseRow:
    """Fold an event of a lane into its row."""
    state = LEASE.evolve(LEASE.initial if row is None else row.state, recorded.event)
    return LeaseRow(
        project_id=recorded.project_id,
        id=recorded.originator_id,
        revision=recorded.revision,
        case_id=state.case_id,
        receipt_id=state.receipt_id,
        claim_id=state.claim_id,
        run_id=state.run_id,
        state=state,
    )


PROJECTION = CLAIMS = projection("claims", ClaimRow, ("claim",), fold_claim)
LEASES = projection("leases", LeaseRow, ("lease",), fold_lease)
