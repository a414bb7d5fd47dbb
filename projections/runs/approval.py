"""Approvals as reads show them (G-108)."""

from __future__ import annotations

from projections.kernel.projection import Row, projection
from statemachines.kernel.machine import Recorded
from statemachines.runs import approval
from statemachines.runs.approval import Approval


class ApprovalRow(Row, frozen=True, kw_only=True):
    """A request as recorded; its expiry is computed when it is read."""

    run_id: str
    automation_id: str
    status: str
    requested_at: int
    expires_at: int
    state: Approval


def fold(row: ApprovalRow | None, recorded: Recorded) -> ApprovalRow:
    """Fold an event of an approval into its row."""
    state = approval.MACHINE.evolve(approval.MACHINE.initial if row is None else row.state, recorded.event)
    return ApprovalRow(
        project_id=recorded.project_id,
        id=recorded.originator_id,
        revision=recorded.revision,
        run_id=state.run_id,
        automation_id=state.automation_id,
        status=state.status.value,
        requested_at=state.requested_at,
        expires_at=state.expires_at,
        state=state,
    )


PROJECTION = projection("approvals", ApprovalRow, ("appr",), fold)
