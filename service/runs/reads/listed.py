"""Lists of automation, and its control room (G-119).

Lists are newest first and begin after a place. They are filtered by what was recorded, which may differ from what is
true until the next sweep; whoever asks keeps what is true.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from projections.contracts import AutomationContractRow
from projections.credentials import CredentialRow
from projections.runs import RECEIPTS, RUNS, ApprovalRow, ClaimRow, LeaseRow, LedgerRow, RunRow, TriggerReceiptRow
from schemas.runs.control import ControlBounds, ControlReport
from service.eventstore.read.reader import PageEnd
from service.eventstore.store import EventStore
from service.onboarding.whose import WhoseEvidence
from service.runs.reads.bundles import (
    ReceiptBundle,
    RunBundle,
    contract_of,
    read_bundles,
    read_contract,
    read_page,
)
from service.sql import load_query
from statemachines.credentials import RUNNER
from statemachines.runs.approval import Approval
from statemachines.runs.claim import lease_live
from statemachines.runs.receipt import ReceiptNotFound, ReceiptState
from statemachines.runs.run import RunNotFound
from statemachines.runs.steps.book import Book
from statemachines.runs.steps.results import waits_for

# Queries of automation, each by one statement: objects and lists of them as they stand now (G-119).

_RUN = load_query("runs", "run")
_RUNS = load_query("runs", "runs")
_RECEIPT = load_query("runs", "receipt")
_RECEIPTS = load_query("runs", "receipts")
_APPROVALS = load_query("runs", "approvals")
_ACTIVE_CLAIM = load_query("runs", "active_claim")
_WAITING = "t.project_id = %s and t.proven_commit = %s"
_MOST_WAITING = 20  # runs of one commit that are looked at; more than one is rare

_RECORDED_RECEIPTS = {
    "issued": ["issued"],
    "claimed": ["claimed"],
    "consumed": ["consumed"],
    "expired": ["issued", "expired"],
    "closed": ["claimed", "closed"],
    "invalidated": ["issued", "claimed", "invalidated"],
}
"""What a receipt may be recorded as while this is what it is now."""


class _RunUnderContract(msgspec.Struct, frozen=True):
    """A run with its contract and its recorded report, which lists leave out: it may be long."""

    run: RunBundle
    contract: AutomationContractRow | None
    report_json: str | None


class _ApprovalInRun(msgspec.Struct, frozen=True):
    """A request with the run it belongs to, as of one statement."""

    approval: ApprovalRow
    around: RunBundle


class ReceiptNow(NamedTuple):
    """A receipt as it stands now. `title` is the evidence kept beside it."""

    row: TriggerReceiptRow
    state: ReceiptState
    title: str | None


class ApprovalNow(NamedTuple):
    """A request as it stands now."""

    row: ApprovalRow
    state: Approval


async def run(store: EventStore, project_id: str, run_id: str) -> Book:
    """Read one run. Raises RunNotFound."""
    found = await read_bundles(store, _RunUnderContract, _RUN, project_id=project_id, run_id=run_id)
    if not found:
        raise RunNotFound("There is no such run.")
    return found[0].run.book(contract_of(found[0].contract), found[0].report_json)


async def run_row(store: EventStore, project_id: str, run_id: str) -> RunRow:
    """Find the row of a run that another row names. Raises RunNotFound once it is purged."""
    row = await store.locate(RUNS, project_id, run_id)
    if row is None:
        raise RunNotFound("There is no such run.")
    return row


async def runs(
    store: EventStore,
    project_id: str,
    after: PageEnd,
    limit: int,
    *,
    automation_id: str | None,
    case_id: str | None,
    status: str | None,
) -> list[Book]:
    """Read runs by the time they began."""
    page = {"project_id": project_id, "at": after.at, "id": after.id, "limit": limit}
    filters = {"automation_id": automation_id, "case_id": case_id, "outcome": status}
    found = await read_page(store, RunBundle, _RUNS, **page, **filters)
    contract = await read_contract(store, project_id)
    return [bundle.book(contract) for bundle in found]


async def receipt_row(store: EventStore, project_id: str, receipt_id: str) -> TriggerReceiptRow:
    """Find the row of a receipt. Raises ReceiptNotFound."""
    row = await store.locate(RECEIPTS, project_id, receipt_id)
    if row is None:
        raise ReceiptNotFound("There is no such receipt.", next_action="List the trigger receipts of the project.")
    return row


async def receipt(store: EventStore, project_id: str, receipt_id: str) -> ReceiptNow:
    """Read one receipt that is known to exist."""
    [bundle] = await read_bundles(store, ReceiptBundle, _RECEIPT, project_id=project_id, receipt_id=receipt_id)
    return ReceiptNow(bundle.receipt, bundle.state(await read_contract(store, project_id)), bundle.title)


async def receipts(
    store: EventStore, project_id: str, after: PageEnd, limit: int, *, automation_id: str | None, status: str | None
) -> list[ReceiptNow]:
    """Read receipts by the time they were issued."""
    recorded = None if status is None else _RECORDED_RECEIPTS[status]
    page = {"project_id": project_id, "at": after.at, "id": after.id, "limit": limit}
    found = await read_page(store, ReceiptBundle, _RECEIPTS, **page, automation_id=automation_id, recorded=recorded)
    contract = await read_contract(store, project_id)
    return [ReceiptNow(bundle.receipt, bundle.state(contract), bundle.title) for bundle in found]


async def approvals(
    store: EventStore, project_id: str, after: PageEnd, limit: int, *, run_id: str | None, status: str | None
) -> list[ApprovalNow]:
    """Read requests by the time they were made."""
    answered = status in {"approved", "rejected"}
    recorded = None if status is None else [status] if answered else sorted({status, "pending"})
    page = {"project_id": project_id, "at": after.at, "id": after.id, "limit": limit}
    found = await read_page(store, _ApprovalInRun, _APPROVALS, **page, run_id=run_id, recorded=recorded)
    contract = await read_contract(store, project_id)
    return [ApprovalNow(item.approval, item.around.book(contract).approvals[item.approval.id]) for item in found]


async def active_claim(store: EventStore, project_id: str, case_id: str) -> ClaimRow | None:
    """Read the active claim of a case now: current, unexpired and unreleased (R-CASE-14)."""
    for claim, lease, now in await store.fetch(_ACTIVE_CLAIM, project_id=project_id, case_id=case_id):
        row = msgspec.json.decode(claim, type=ClaimRow)
        if lease_live(row.state, msgspec.json.decode(lease, type=LeaseRow).state, now):
            return row
    return None


async def waiting_runs(store: EventStore, project_id: str, sha: str) -> list[RunRow]:
    """Read the runs that wait for a deploy of this commit (in full), in any environment, the oldest first (G-110)."""
    rows = await store.find(RUNS, _WAITING, project_id, sha, order_by="t.started_at, t.id", limit=_MOST_WAITING)
    return [row for row in rows if waits_for(row.state, sha)]


# Everything that control shows of a project's automation, read by one statement (G-102, R-AUT-11).

BOUNDS = ControlBounds()
SCANNED = 200
"""How many live runs, unfinished grants and open receipts one read looks at for exceptions, the oldest first."""

_CONTROL = load_query("runs", "control")


class UsedCredential(msgspec.Struct, frozen=True):
    """A credential's row, and when it was last used."""

    row: CredentialRow
    last_used_at: int | None


class Snapshot(msgspec.Struct, frozen=True):
    """Everything that control shows, as of one statement. `no_error_source`: no error came by any way (G-182)."""

    now: int
    contract: AutomationContractRow | None
    evidence: WhoseEvidence
    no_error_source: bool
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
