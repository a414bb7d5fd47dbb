"""Queries of automation, each by one statement: objects and lists of them as they stand now (G-119).

Lists are newest first and begin after a place. They are filtered by what was recorded, which may differ from what is
true until the next sweep; whoever asks keeps what is true.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
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
from service.eventstore.connect.clock import NOW_SECONDS
from service.eventstore.read.pages import PageEnd
from service.eventstore.store import EventStore
from service.runs.reads.bundles import (
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
from statemachines.runs.claim import lease_live
from statemachines.runs.receipt import ReceiptNotFound, ReceiptState
from statemachines.runs.run import RunNotFound
from statemachines.runs.steps.bind_deploy import waits_for
from statemachines.runs.steps.book import Book

_RUN_UNDER_CONTRACT = (
    f"json_build_object('run', {RUN_BUNDLE}, {CONTRACT.format('r.project_id')}, 'report_json', (select p.report_json "  # noqa: S608
    "from reports p where p.project_id = r.project_id and p.id = r.state->>'report_id'))"
)
_APPROVAL_BUNDLE = f"json_build_object('approval', row_to_json(a), 'around', {RUN_BUNDLE})"
_RUN_OF_APPROVAL = " join automation_runs r on r.project_id = a.project_id and r.id = a.run_id"
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


Condition = tuple[str, list[Any]]
"""SQL over the columns of a table, and its values."""


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
    source = "automation_runs r where r.project_id = %s and r.id = %s"
    found = await read_bundles(store, _RunUnderContract, _RUN_UNDER_CONTRACT, source, project_id, run_id)
    if not found:
        raise RunNotFound("There is no such run.")
    return found[0].run.book(contract_of(found[0].contract), found[0].report_json)


async def run_row(store: EventStore, project_id: str, run_id: str) -> RunRow:
    """Find the row of a run that another row names. Raises RunNotFound once it is purged."""
    row = await store.locate(RUNS.table, project_id, run_id)
    if row is None:
        raise RunNotFound("There is no such run.")
    return row


async def runs(
    store: EventStore, project_id: str, after: PageEnd, limit: int, *, automation_id: str | None, status: str | None
) -> list[Book]:
    """Read runs by the time they began."""
    # A run that time has failed is recorded as live until the next sweep.
    either: list[Condition] = [] if status is None else [("live", []), ("outcome = %s and not live", [status])]
    always = _given("automation_id", automation_id)
    source, values = _newest("automation_runs r", "started_at", project_id, after, limit, always, either)
    found = await read_bundles(store, RunBundle, RUN_BUNDLE, source, *values)
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
    store: EventStore, project_id: str, after: PageEnd, limit: int, *, automation_id: str | None, status: str | None
) -> list[ReceiptNow]:
    """Read receipts by the time they were issued."""
    either = _one_of([] if status is None else _RECORDED_RECEIPTS[status])
    always = _given("automation_id", automation_id)
    source, values = _newest("trigger_receipts t", "issued_at", project_id, after, limit, always, either)
    found = await read_bundles(store, ReceiptBundle, RECEIPT_BUNDLE, source, *values)
    contract = await read_contract(store, project_id)
    return [ReceiptNow(bundle.receipt, bundle.state(contract), bundle.title) for bundle in found]


async def approvals(
    store: EventStore, project_id: str, after: PageEnd, limit: int, *, run_id: str | None, status: str | None
) -> list[ApprovalNow]:
    """Read requests by the time they were made."""
    recorded: dict[str, None] = {}
    if status is not None:
        recorded = dict.fromkeys([status] if status in {"approved", "rejected"} else [status, "pending"])
    always, either = _given("run_id", run_id), _one_of(recorded)
    source, values = _newest(
        "approvals a", "requested_at", project_id, after, limit, always, either, joined=_RUN_OF_APPROVAL
    )
    found = await read_bundles(store, _ApprovalInRun, _APPROVAL_BUNDLE, source, *values)
    contract = await read_contract(store, project_id)
    return [ApprovalNow(item.approval, item.around.book(contract).approvals[item.approval.id]) for item in found]


async def active_claim(store: EventStore, project_id: str, case_id: str) -> ClaimRow | None:
    """Read the claim that holds a case now: current, unexpired and unreleased (R-CASE-14)."""
    for claim, lease, now in await store.fetch(_ACTIVE_CLAIM, project_id, case_id):
        row = msgspec.json.decode(claim, type=ClaimRow)
        if lease_live(row.state, msgspec.json.decode(lease, type=LeaseRow).state, now):
            return row
    return None


async def waiting_runs(store: EventStore, project_id: str, sha: str) -> list[RunRow]:
    """Read the runs that wait for a deploy of this commit (in full), in any environment, the oldest first (G-110)."""
    rows = await store.find(RUNS.table, _WAITING, project_id, sha, order_by="t.started_at, t.id", limit=_MOST_WAITING)
    return [row for row in rows if waits_for(row.state, sha)]


def _given(column: str, value: str | None) -> list[Condition]:
    """The condition of a filter, none when it is not used."""
    return [] if value is None else [(f"{column} = %s", [value])]


def _one_of(recorded: Iterable[str]) -> list[Condition]:
    """A condition for each status that a row may be recorded as."""
    return [("status = %s", [status]) for status in recorded]


def _newest(
    named: str,
    time: str,
    project_id: str,
    after: PageEnd,
    limit: int,
    always: Sequence[Condition],
    either: Sequence[Condition],
    *,
    joined: str = "",
) -> tuple[str, list[Any]]:
    """What follows `from` for a page of a table, and its values. `named`: the table and its alias.

    Rows fulfil all of `always` and one of `either`, of which no two hold together. Each of these is a search of its
    own, in the order of an index: asked with "or", the database would collect all rows of each before it sorts them.
    """
    table, alias = named.split()
    searches: list[str] = []
    values: list[Any] = []
    for choice in either or [("true", [])]:
        conditions = [*always, choice]
        where = "".join(f" and {condition}" for condition, _ in conditions)
        searches.append(
            f"(select * from {table} where project_id = %s and ({time}, id) < (%s, %s){where} "  # noqa: S608 - constants
            f"order by {time} desc, id desc limit %s)"
        )
        values += [project_id, after.at, after.id, *chain.from_iterable(given for _, given in conditions), limit]
    order = f" order by {alias}.{time} desc, {alias}.id desc limit %s"
    return f"({' union all '.join(searches)}) {alias}{joined}{order}", [*values, limit]
