"""Everything that control shows of a project's automation, read by one statement (G-102, R-AUT-11)."""

from __future__ import annotations

import msgspec

from projections.contracts.contract import AutomationContractRow
from projections.credentials.credential import CredentialRow
from projections.runs.ledger import LedgerRow
from schemas.runs.control import ControlBounds, ControlReport
from service.eventstore.connect.clock import NOW_SECONDS
from service.eventstore.store import EventStore
from service.runs.reads.bundles import RECEIPT_BUNDLE, RUN_BUNDLE, ReceiptBundle, RunBundle
from statemachines.credentials.credential import RUNNER

BOUNDS = ControlBounds()
SCANNED = 200
"""How many live runs, unfinished grants and open receipts one read looks at for exceptions, the oldest first."""

_RUNS = (
    "select r.* from automation_runs r where r.project_id = p.id and (r.live "
    "or r.phase = 'external_follow_up_required' or exists (select from grants g where g.project_id = r.project_id "
    "and g.run_id = r.id and g.status in ('consumed', 'unresolved'))) order by r.started_at, r.id"
)
_RECEIPTS = (
    "select t.* from trigger_receipts t where t.project_id = p.id and t.status = 'issued' order by t.issued_at, t.id"
)
_CREDENTIALS = (
    "select c.*, u.last_used_at from credentials c left join credential_uses u "
    "on u.project_id = c.project_id and u.id = c.id where c.project_id = p.id order by c.created_at desc, c.id desc"
)
_REPORTS = (
    "select q.id report_id, q.automation_id, q.run_id, q.period_start, q.period_end, q.recorded_at from reports q "
    "where q.project_id = p.id and q.recorded_at is not null order by q.recorded_at desc, q.id desc"
)
_SNAPSHOT = f"""
select json_build_object(
    'now', {NOW_SECONDS},
    'contract', (select row_to_json(k) from automation_contracts k where k.project_id = p.id),
    'ledgers', (select coalesce(json_agg(row_to_json(l)), '[]') from ledgers l where l.project_id = p.id),
    'credentials', (select coalesce(json_agg(json_build_object('row', row_to_json(c), 'last_used_at', c.last_used_at)),
        '[]') from ({_CREDENTIALS} limit {BOUNDS.max_credentials + 1}) c),
    'runners', (select coalesce(json_agg(distinct c.automation_id), '[]') from credentials c where c.project_id = p.id
        and c.kind = '{RUNNER}' and c.revoked_at is null and c.expires_at > {NOW_SECONDS}),
    'runs', (select coalesce(json_agg({RUN_BUNDLE}), '[]') from ({_RUNS} limit {SCANNED + 1}) r),
    'receipts', (select coalesce(json_agg({RECEIPT_BUNDLE}), '[]') from ({_RECEIPTS} limit {SCANNED + 1}) t),
    'reports', (select coalesce(json_agg(row_to_json(q)), '[]')
        from ({_REPORTS} limit {BOUNDS.max_reports + 1}) q)
)::text from projects p where p.id = %s
"""  # noqa: S608 - put together from constants


class UsedCredential(msgspec.Struct, frozen=True):
    """A credential's row, and when it was last used."""

    row: CredentialRow
    last_used_at: int | None


class Snapshot(msgspec.Struct, frozen=True):
    """Everything that control shows, as of one statement."""

    now: int
    contract: AutomationContractRow | None
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
    [(text,)] = await store.fetch(_SNAPSHOT, project_id)
    return msgspec.json.decode(text, type=Snapshot)
