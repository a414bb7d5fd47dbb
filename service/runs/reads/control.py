"""Everything that control shows of a project's automation, read by one statement (G-102, R-AUT-11)."""

from __future__ import annotations

import msgspec

from projections.contracts.contract import AutomationContractRow
from projections.credentials.credential import CredentialRow
from projections.runs.ledger import LedgerRow
from schemas.runs.control import ControlBounds, ControlReport
from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.store import EventStore
from service.onboarding.whose import WhoseEvidence
from service.runs.reads.bundles import ReceiptBundle, RunBundle
from statemachines.credentials.credential import RUNNER

BOUNDS = ControlBounds()
SCANNED = 200
"""How many live runs, unfinished grants and open receipts one read looks at for exceptions, the oldest first."""

_CONTROL = load_sql("runs", "control")


class UsedCredential(msgspec.Struct, frozen=True):
    """A credential's row, and when it was last used."""

    row: CredentialRow
    last_used_at: int | None


class Snapshot(msgspec.Struct, frozen=True):
    """Everything that control shows, as of one statement."""

    now: int
    contract: AutomationContractRow | None
    evidence: WhoseEvidence
    ledgers: list[LedgerRow]
    credentials: list[UsedCredential]
    runners: list[str]
    runs: list[RunBundle]
    receipts: list[ReceiptBundle]
    reports: list[ControlReport]

    @property
    def scanned_all(self) -> bool:
        """Whether nothing was left unread that may need a look."""
        return len(self.runs) <= SCANNED and len(self.receipts) <= SCANNED


async def read_snapshot(store: EventStore, project_id: str) -> Snapshot:
    """Read a project's automation at one server time."""
    [(text,)] = await store.fetch(
        _CONTROL,
        project_id=project_id,
        runner=RUNNER,
        most=SCANNED + 1,
        most_credentials=BOUNDS.max_credentials + 1,
        most_reports=BOUNDS.max_reports + 1,
    )
    return msgspec.json.decode(text, type=Snapshot)
