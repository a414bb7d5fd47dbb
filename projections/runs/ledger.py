"""Ledgers as control shows them: what counts against the daily budgets of an automation (G-102, G-107)."""

from __future__ import annotations

from projections.kernel.projection import Row, projection
from statemachines.kernel.machine import Recorded
from statemachines.runs import ledger
from statemachines.runs.ledger import Ledger, Reservation, RunAccount, Status


class LedgerRow(Row, frozen=True, kw_only=True):
    """The daily budgets of one automation; what has left the window is computed when it is read.

    Of a run only the time of its charge is kept, in epoch seconds: the row is written with every charge.
    """

    clock: int
    runs: list[int]
    prs: list[Reservation]

    @property
    def ledger(self) -> Ledger:
        """The ledger, without what single runs have used."""
        return Ledger(Status.OPEN, self.clock, [RunAccount("", charged_at) for charged_at in self.runs], self.prs)


def fold(row: LedgerRow | None, recorded: Recorded) -> LedgerRow:
    """Fold an event of a ledger into its row."""
    state = ledger.MACHINE.evolve(ledger.MACHINE.initial if row is None else row.ledger, recorded.event)
    return LedgerRow(
        project_id=recorded.project_id,
        id=recorded.originator_id,
        revision=recorded.revision,
        clock=state.clock,
        runs=[run.charged_at for run in state.runs],
        prs=state.prs,
    )


PROJECTION = projection("ledgers", LedgerRow, ("led",), fold)
