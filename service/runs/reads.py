"""Queries of automation, each by one statement: objects and lists of them as they stand now (G-119).

Lists are newest first and begin after a place. They are filtered by what was recorded, which may differ from what is
true until the next sweep; whoever asks keeps what is true.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from projections.contracts.contract import AutomationContractRow
from projections.runs.approval import ApprovalRow
from projections.runs.claim import ClaimRow
from projections.runs.lease import LeaseRow
from projections.runs.receipt import PROJECTION as RECEIPTS
from projections.runs.receipt import TriggerReceiptRow
from projections.runs.run import PROJECTION as RUNS
from projections.runs.run import RunRow
from service.eventstore.clock import NOW_SECONDS
from service.eventstore.pages import Place
from service.eventstore.store import EventStore
from service.runs.bundles import (
    CONTRACT,
    RECEIPT_BUNDLE,
    RUN_BUNDLE,
    ReceiptBundle,
    RunBundle,
    contract_of,
    read_bundles,
    read_contract,
)
from statemachines.runs.approval import Approval
from statemachines.runs.book import Book
from statemachines.runs.claim import lease_live
from statemachines.runs.deploy_binding import binds
from statemachines.runs.receipt import Receipt, ReceiptNotFound
from statemachines.runs.run import RunNotFound

_RUN_UNDER_CONTRACT = f"json_build_object('run', {RUN_BUNDLE}, {CONTRACT.format('r.project_id')})"
_RUNS = "automation_runs r where r.project_id = %s and (r.started_at, r.id) < (%s, %s)"
_RUNS_ORDER = " order by r.started_at desc, r.id desc limit %s"
_RECEIPTS = "trigger_receipts t where t.project_id = %s and (t.issued_at, t.id) < (%s, %s)"
_RECEIPTS_ORDER = " order by t.issued_at desc, t.id desc limit %s"
_APPROVAL_BUNDLE = f"json_build_object('approval', row_to_json(a), 'around', {RUN_BUNDLE})"
_APPROVALS = (
    "approvals a join automation_runs r on r.project_id = a.project_id and r.id = a.run_id "
    "where a.project_id = %s and (a.requested_at, a.id) < (%s, %s)"
)
_APPROVALS_ORDER = " order by a.requested_at desc, a.id desc limit %s"
_ACTIVE_CLAIM = (
    f"select row_to_json(t)::text, row_to_json(l)::text, {NOW_SECONDS} from leases l "  # noqa: S608 - a constant
    "join claims t on t.project_id = l.project_id and t.id = l.claim_id "
    "join projects p on p.project_id = l.project_id and p.status = 'active' where l.project_id = %s and l.case_id = %s"
)
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
    run: RunBundle
    contract: AutomationContractRow | None


class _ApprovalInRun(msgspec.Struct, frozen=True):
    """A request with the run it belongs to, as of one statement."""

    approval: ApprovalRow
    around: RunBundle


class ReceiptNow(NamedTuple):
    """A receipt as it stands now. `title` is the evidence kept beside it."""

    row: TriggerReceiptRow
    state: Receipt
    title: str | None


class ApprovalNow(NamedTuple):
    """A request as it stands now."""

    row: ApprovalRow
    state: Approval


async def run(store: EventStore, project_id: str, run_id: str) -> Book:
    """Read one run. Raises RunNotFound."""
    source = "automation_runs r where r.project_id = %s and r.id = %s"
    found = await read_bundles(store, _RunUnderContract, _RUN_UNDER_CONTRACT, source, project_id, run_id)
    if not found:
        raise RunNotFound("There is no such run.")
    return found[0].run.book(contract_of(found[0].contract))


async def run_row(store: EventStore, project_id: str, run_id: str) -> RunRow:
    """Find the row of a run that another row names. Raises RunNotFound once it is purged."""
    row = await store.locate(RUNS.table, project_id, run_id)
    if row is None:
        raise RunNotFound("There is no such run.")
    return row


async def runs(
    store: EventStore, project_id: str, after: Place, limit: int, *, automation_id: str | None, status: str | None
) -> list[Book]:
    """Read runs by the time they began."""
    # A run that time has failed is recorded as live until the next sweep.
    where, values = _given((" and r.automation_id = %s", automation_id), (" and (r.outcome = %s or r.live)", status))
    found = await read_bundles(
        store, RunBundle, RUN_BUNDLE, _RUNS + where + _RUNS_ORDER, project_id, after.at, after.id, *values, limit
    )
    contract = await read_contract(store, project_id)
    return [bundle.book(contract) for bundle in found]


async def receipt_row(store: EventStore, project_id: str, receipt_id: str) -> TriggerReceiptRow:
    """Find the row of a receipt. Raises ReceiptNotFound."""
    row = await store.locate(RECEIPTS.table, project_id, receipt_id)
    if row is None:
        raise ReceiptNotFound("There is no such receipt.", next_action="List the trigger receipts of the project.")
    return row


async def receipt(store: EventStore, project_id: str, receipt_id: str) -> ReceiptNow:
    """Read one receipt that is known to exist."""
    source = "trigger_receipts t where t.project_id = %s and t.id = %s"
    [bundle] = await read_bundles(store, ReceiptBundle, RECEIPT_BUNDLE, source, project_id, receipt_id)
    return ReceiptNow(bundle.receipt, bundle.state(await read_contract(store, project_id)), bundle.title)


async def receipts(
    store: EventStore, project_id: str, after: Place, limit: int, *, automation_id: str | None, status: str | None
) -> list[ReceiptNow]:
    """Read receipts by the time they were issued."""
    recorded = None if status is None else _RECORDED_RECEIPTS[status]
    where, values = _given((" and t.automation_id = %s", automation_id), (" and t.status = any(%s)", recorded))
    source = _RECEIPTS + where + _RECEIPTS_ORDER
    found = await read_bundles(
        store, ReceiptBundle, RECEIPT_BUNDLE, source, project_id, after.at, after.id, *values, limit
    )
    contract = await read_contract(store, project_id)
    return [ReceiptNow(bundle.receipt, bundle.state(contract), bundle.title) for bundle in found]


async def approvals(
    store: EventStore, project_id: str, after: Place, limit: int, *, run_id: str | None, status: str | None
) -> list[ApprovalNow]:
    """Read requests by the time they were made."""
    recorded = None
    if status is not None:
        recorded = [status] if status in {"approved", "rejected"} else [status, "pending"]
    where, values = _given((" and a.run_id = %s", run_id), (" and a.status = any(%s)", recorded))
    source = _APPROVALS + where + _APPROVALS_ORDER
    found = await read_bundles(
        store, _ApprovalInRun, _APPROVAL_BUNDLE, source, project_id, after.at, after.id, *values, limit
    )
    contract = await read_contract(store, project_id)
    return [ApprovalNow(item.approval, item.around.book(contract).approvals[item.approval.id]) for item in found]


async def active_claim(store: EventStore, project_id: str, case_id: str) -> ClaimRow | None:
    """Read the claim that holds a case now: current, unexpired and unreleased (R-CASE-14)."""
    for claim, lease, now in await store.fetch(_ACTIVE_CLAIM, project_id, case_id):
        row = msgspec.json.decode(claim, type=ClaimRow)
        if lease_live(row.state, msgspec.json.decode(lease, type=LeaseRow).state, now):
            return row
    return None


async def waiting_run(store: EventStore, project_id: str, sha: str, environment: str) -> RunRow | None:
    """Find the oldest run that waits for a deploy of this commit, in full, in this environment (G-110)."""
    rows = await store.find(RUNS.table, _WAITING, project_id, sha, order_by="t.started_at, t.id", limit=_MOST_WAITING)
    return next((row for row in rows if binds(row.state, sha, environment)), None)


def _given(*filters: tuple[str, Any]) -> tuple[str, list[Any]]:
    """Put together the conditions that have a value, and their values."""
    used = [(condition, value) for condition, value in filters if value is not None]
    return "".join(condition for condition, _ in used), [value for _, value in used]
