"""Trigger receipts as reads show them, and the evidence kept beside them (G-104)."""

from __future__ import annotations

import msgspec

from projections.kernel.projection import Row, Table, projection
from statemachines.kernel.machine import Recorded
from statemachines.runs import receipt
from statemachines.runs.receipt import ReceiptState


class TriggerReceiptRow(Row, frozen=True, kw_only=True):
    """A receipt as recorded; its expiry is computed when it is read."""

    automation_id: str
    kind: str
    status: str
    case_id: str | None
    claim_id: str | None
    run_id: str | None
    issued_at: int
    expires_at: int
    state: ReceiptState


class TriggerEvidenceRow(msgspec.Struct, frozen=True, kw_only=True):
    """The title of the case at issue: telemetry, hence a fact outside the stream. `id` is the receipt's."""

    project_id: str
    id: str
    title: str


def fold(row: TriggerReceiptRow | None, recorded: Recorded) -> TriggerReceiptRow:
    """Fold an event of a receipt into its row."""
    state = receipt.MACHINE.evolve(receipt.MACHINE.initial if row is None else row.state, recorded.event)
    return TriggerReceiptRow(
        project_id=recorded.project_id,
        id=recorded.originator_id,
        revision=recorded.revision,
        automation_id=state.automation_id,
        kind=state.kind,
        status=state.status.value,
        case_id=None if state.case is None else state.case.case_id,
        claim_id=state.claim_id,
        run_id=state.run_id,
        issued_at=state.issued_at,
        expires_at=state.expires_at,
        state=state,
    )


PROJECTION = projection("trigger_receipts", TriggerReceiptRow, ("trc",), fold)
TRIGGER_EVIDENCE = Table("trigger_evidence", TriggerEvidenceRow, ("project_id", "id"))
