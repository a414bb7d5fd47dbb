"""The signal map of a project as reads show it (R-MAP-01)."""

from __future__ import annotations

from msgspec.structs import replace

from projections.kernel.projection import Row, projection
from schemas.kernel.shape import EvidenceSource
from statemachines.kernel.machine import Recorded
from statemachines.kernel.readings import source_told
from statemachines.onboarding.signal_map import SignalMapRecorded, SignalMapVerified, SignalMapWithdrawn
from statemachines.onboarding.stored import Plan, Receipt


class SignalMapRow(Row, frozen=True, kw_only=True):
    """One signal map; a withdrawn one has no row. `evidence_source` is that of the receipt (G-183)."""

    plan: Plan
    plan_sha256: str
    recorded_at: int
    receipt: Receipt | None = None
    evidence_source: EvidenceSource = "local"


def fold(row: SignalMapRow | None, recorded: Recorded) -> SignalMapRow | None:
    """Fold an event of a signal map into its row."""
    match recorded.event:
        case SignalMapRecorded() as event:
            return SignalMapRow(
                project_id=recorded.project_id,
                id=recorded.originator_id,
                revision=recorded.revision,
                plan=event.plan,
                plan_sha256=event.plan_sha256,
                recorded_at=event.recorded_at,
            )
        case SignalMapVerified(receipt, source) if row:
            return replace(row, revision=recorded.revision, receipt=receipt, evidence_source=source_told(source))
        case SignalMapWithdrawn():
            return None
    return row


PROJECTION = projection("signal_maps", SignalMapRow, ("map",), fold)
SIGNAL_MAPS = PROJECTION.table
