"""An object of automation with everything around it, read by one statement, and shown as it truly stands.

Rows hold what was recorded. A bundle puts the parts together and lets `as_of` and the `settle` functions say what
time, a stop or a moved case has made of it since (G-119): no answer depends on the sweep having run.
"""

from typing import Any, TypeVar

import msgspec

from projections.cases import CaseRow
from projections.contracts import AUTOMATION_CONTRACTS, AutomationContractRow
from projections.runs import ApprovalRow, ClaimRow, GrantRow, LeaseRow, RunRow, TriggerEvidenceRow, TriggerReceiptRow
from service.eventstore.store import EventStore
from service.sql import Query
from statemachines.contracts.contract import Automation, Contract, Status, authority_of
from statemachines.reports import Report
from statemachines.runs import claim as claims
from statemachines.runs import receipt as receipts
from statemachines.runs.lease import Lease
from statemachines.runs.steps.book import Book, carried
from statemachines.runs.steps.end_run import as_of, decide_fence_run

T = TypeVar("T")


class RunBundle(msgspec.Struct, frozen=True):
    """A run's row with what hangs on it, as of one statement. `fenced`: its project is being deleted."""

    now: int
    fenced: bool
    run: RunRow
    claim: ClaimRow | None
    lease: LeaseRow | None
    grants: list[GrantRow]
    approvals: list[ApprovalRow]
    report: Report | None

    def book(self, contract: Contract, report_json: str | None = None) -> Book:
        """Put the parts together as they stand now; `report_json` is the recorded report, where it was read too."""
        book = Book(
            project_id=self.run.project_id,
            run_id=self.run.id,
            run=self.run.state,
            claim=claims.Claim() if self.claim is None else self.claim.state,
            lease=Lease() if self.lease is None else self.lease.state,
            authority=authority_of(contract, self.run.automation_id),
            grants={row.id: row.state for row in self.grants},
            approvals={row.id: row.state for row in self.approvals},
            report=Report() if self.report is None else self.report,
            report_json=report_json,
        )
        if self.fenced:
            book = carried(book, decide_fence_run(book, self.now))
        return as_of(book, self.now)


class ReceiptBundle(msgspec.Struct, frozen=True):
    """A receipt's row with what hangs on it, as of one statement. `fenced`: its project is being deleted."""

    now: int
    fenced: bool
    receipt: TriggerReceiptRow
    claim: ClaimRow | None
    lease: LeaseRow | None
    case: CaseRow | None
    evidence: TriggerEvidenceRow | None

    @property
    def title(self) -> str | None:
        """The quoted title of the case."""
        return None if self.evidence is None else self.evidence.title

    def state(self, contract: Contract) -> receipts.ReceiptState:
        """The receipt as it stands now."""
        claim = claims.Claim() if self.claim is None else self.claim.state
        lease = Lease() if self.lease is None else self.lease.state
        state = self.receipt.state
        case = None if self.case is None else (self.case.status, self.case.case_revision)
        events = receipts.settle(
            state,
            authority_of(contract, state.automation_id),
            case,
            claim_live=claims.lease_live(claim, lease, self.now),
            now=self.now,
        )
        for event in receipts.decide_fence(state, self.now) if self.fenced else events:
            state = receipts.evolve(state, event)
        return state


def contract_of(row: AutomationContractRow | None) -> Contract:
    """Return the contract's state as far as authority rests on it; the initial one when nothing was saved."""
    if row is None:
        return Contract()
    automations = [Automation(a.saved, a.enabled, a.generation, a.withdrawn_at) for a in row.automations]
    return Contract(status=Status(row.status), contract_id=row.id, revision=row.state_revision, automations=automations)


async def read_contract(store: EventStore, project_id: str) -> Contract:
    """Read a project's contract. Read it after what is judged by it: then it is never the older of the two."""
    rows = await store.find(AUTOMATION_CONTRACTS, "t.project_id = %s", project_id, limit=1)
    return contract_of(rows[0] if rows else None)


async def read_bundles(store: EventStore, kind: type[T], query: Query, **values: Any) -> list[T]:
    """Read the JSON result of a query."""
    return [msgspec.json.decode(text, type=kind) for (text,) in await store.fetch(query, **values)]


async def read_page(store: EventStore, kind: type[T], query: Query, **values: Any) -> list[T]:
    """Read a page of a query's JSON result, planned for its values: its filters change the plan."""
    return [msgspec.json.decode(text, type=kind) for (text,) in await store.fetch_planned(query, **values)]
