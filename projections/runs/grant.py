"""Grants as reads show them (G-109)."""

from __future__ import annotations

from projections.kernel.projection import Row, projection
from statemachines.kernel.machine import Recorded
from statemachines.runs import grant
from statemachines.runs.grant import Grant


class GrantRow(Row, frozen=True, kw_only=True):
    """A grant as recorded; its expiry is computed when it is read."""

    run_id: str
    automation_id: str
    kind: str
    status: str
    authorized_at: int
    expires_at: int
    state: Grant


def fold(row: GrantRow | None, recorded: Recorded) -> GrantRow:
    """Fold an event of a grant into its row."""
    state = grant.MACHINE.evolve(grant.MACHINE.initial if row is None else row.state, recorded.event)
    return GrantRow(
        project_id=recorded.project_id,
        id=recorded.originator_id,
        revision=recorded.revision,
        run_id=state.run_id,
        automation_id=state.automation_id,
        kind=state.kind,
        status=state.status.value,
        authorized_at=state.authorized_at,
        expires_at=state.expires_at,
        state=state,
    )


PROJECTION = projection("grants", GrantRow, ("grant",), fold)
