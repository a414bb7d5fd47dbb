"""Ledgers as control shows them: what counts against the budgets of an automation (G-102, G-107)."""

from __future__ import annotations

from projections.kernel import Row, projection
from statemachines.kernel import Recorded
from statemachines.ledger import LEDGER, Ledger


class LedgerRow(Row, frozen=True, kw_only=True):
    """The ledger of one automation; what has left the window is worked out when it is read."""

    state: Ledger


def fold(row: LedgerRow | None, recorded: Recorded) -> LedgerRow:
    """Fold an event of a ledger into its row."""
    return LedgerRow(
        project_id=recorded.project_id,
        id=recorded.originator_id,
        revision=recorded.revision,
        state=LEDGER.evolve(LEDGER.initial if row is None else row.state, recorded.event),
    )


PROJECTION = projection("ledgers", LedgerRow, ("led",), fold)
