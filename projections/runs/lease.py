"""The leases of cases as reads find them: where the latest receipt, claim and run of a case are (G-105)."""

from __future__ import annotations

from projections.kernel.projection import Row, projection
from statemachines.kernel.machine import Recorded
from statemachines.runs import lease
from statemachines.runs.lease import Lease


class LeaseRow(Row, frozen=True, kw_only=True):
    """The lease of a case: where its latest receipt, claim and run are found."""

    case_id: str
    receipt_id: str | None
    claim_id: str | None
    run_id: str | None
    state: Lease


def fold(row: LeaseRow | None, recorded: Recorded) -> LeaseRow:
    """Fold an event of a lease into its row."""
    state = lease.MACHINE.evolve(lease.MACHINE.initial if row is None else row.state, recorded.event)
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


PROJECTION = projection("leases", LeaseRow, ("lease",), fold)
