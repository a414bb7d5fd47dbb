"""Claims as reads show them (G-105)."""

from __future__ import annotations

from projections.kernel.projection import Row, projection
from statemachines.kernel.machine import Recorded
from statemachines.runs import claim
from statemachines.runs.claim import Claim


class ClaimRow(Row, frozen=True, kw_only=True):
    """A claim as recorded; a lease that time has ended is worked out when it is read."""

    case_id: str
    automation_id: str
    runner_id: str
    receipt_id: str
    run_id: str | None
    status: str
    claimed_at: int
    lease_expires_at: int
    state: Claim


def fold(row: ClaimRow | None, recorded: Recorded) -> ClaimRow:
    """Fold an event of a claim into its row."""
    state = claim.MACHINE.evolve(claim.MACHINE.initial if row is None else row.state, recorded.event)
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


PROJECTION = projection("claims", ClaimRow, ("claim",), fold)
