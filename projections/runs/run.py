"""Automation runs as reads show them, and as deploys and sweeps find them (G-106)."""

from __future__ import annotations

from projections.kernel.projection import Row, projection
from statemachines.kernel.machine import Recorded
from statemachines.runs import run
from statemachines.runs.run import Run


class RunRow(Row, frozen=True, kw_only=True):
    """A run as recorded. `phase` and `outcome` are what clients see; `live` is false once the run is over.

    `proven_commit` is the commit whose deploy the run waits for, null while it waits for none.
    """

    automation_id: str
    runner_id: str
    receipt_id: str
    claim_id: str | None
    case_id: str | None
    phase: str
    outcome: str | None
    live: bool
    proven_commit: str | None
    started_at: int
    deadline_at: int
    state: Run


def fold(row: RunRow | None, recorded: Recorded) -> RunRow:
    """Fold an event of a run into its row."""
    state = run.MACHINE.evolve(run.MACHINE.initial if row is None else row.state, recorded.event)
    return RunRow(
        project_id=recorded.project_id,
        id=recorded.originator_id,
        revision=recorded.revision,
        automation_id=state.automation_id,
        runner_id=state.runner_id,
        receipt_id=state.receipt_id,
        claim_id=state.claim_id,
        case_id=state.case_id,
        phase=state.status.phase,
        outcome=state.status.outcome,
        live=state.live,
        proven_commit=state.proven_commit if state.live and state.deploy is None else None,
        started_at=state.started_at,
        deadline_at=state.deadline_at,
        state=state,
    )


PROJECTION = projection("automation_runs", RunRow, ("run",), fold)
