"""Lists of automation, and its control room: read, and as clients see it (G-102, G-119).

Lists are newest first and begin after a place. They are filtered by what was recorded, which may differ from what is
true until the next sweep; whoever asks keeps what is true.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import msgspec

from projections.contracts import AutomationContractRow
from projections.credentials import CredentialRow
from projections.runs import (
    RECEIPTS,
    RUNS,
    ApprovalRow,
    ClaimRow,
    LeaseRow,
    LedgerRow,
    PullRequestRow,
    RunRow,
    TriggerReceiptRow,
)
from schemas.credentials import CredentialMetadata
from schemas.runs import control as wire
from service.eventstore.read.reader import PageEnd
from service.eventstore.store import EventStore
from service.onboarding.evidence import WhoseEvidence
from service.runs.bundles import ReceiptBundle, RunBundle, contract_of, read_bundles, read_contract, read_page
from service.sql import load_query
from statemachines.contracts.contract import Contract, authority_of
from statemachines.contracts.cron import next_firing, parse_cron
from statemachines.contracts.documents import read_policy
from statemachines.credentials.credential import RUNNER
from statemachines.runs import approval as approval_machine
from statemachines.runs import claim as claims
from statemachines.runs import grant as grants
from statemachines.runs import receipt as receipt_machine
from statemachines.runs import run as run_machine
from statemachines.runs.ledger import Ledger, ledger_id, window_budgets
from statemachines.runs.steps.book import Book
from statemachines.runs.steps.results import waits_for
from statemachines.runs.verdict import Verdict

# Lists of automation, and its control room (G-119).

# Queries of automation, each by one statement: objects and lists of them as they stand now (G-119).

_RUN = load_query("runs", "run")
_RUNS = load_query("runs", "runs")
_CASE_VERDICT = load_query("runs", "case_verdict")
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
    state: receipt_machine.ReceiptState
    title: str | None


class ApprovalNow(NamedTuple):
    """A request as it stands now."""

    row: ApprovalRow
    state: approval_machine.Approval


async def run(store: EventStore, project_id: str, run_id: str) -> Book:
    """Read one run. Raises RunNotFound."""
    found = await read_bundles(store, _RunUnderContract, _RUN, project_id=project_id, run_id=run_id)
    if not found:
        raise run_machine.RunNotFound("There is no such run.")
    return found[0].run.book(contract_of(found[0].contract), found[0].report_json)


async def run_row(store: EventStore, project_id: str, run_id: str) -> RunRow:
    """Find the row of a run that another row names. Raises RunNotFound once it is purged."""
    row = await store.locate(RUNS, project_id, run_id)
    if row is None:
        raise run_machine.RunNotFound("There is no such run.")
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


async def case_verdict(store: EventStore, project_id: str, case_id: str) -> Verdict | None:
    """Read the newest verdict about a repair of a case (G-173). None where no deploy of one was judged."""
    rows = await store.fetch(_CASE_VERDICT, project_id=project_id, case_id=case_id)
    return msgspec.json.decode(rows[0][0], type=Verdict) if rows else None


async def receipt_row(store: EventStore, project_id: str, receipt_id: str) -> TriggerReceiptRow:
    """Find the row of a receipt. Raises ReceiptNotFound."""
    row = await store.locate(RECEIPTS, project_id, receipt_id)
    if row is None:
        raise receipt_machine.ReceiptNotFound(
            "There is no such receipt.", next_action="List the trigger receipts of the project."
        )
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
        if claims.lease_live(row.state, msgspec.json.decode(lease, type=LeaseRow).state, now):
            return row
    return None


async def waiting_runs(store: EventStore, project_id: str, sha: str) -> list[RunRow]:
    """Read the runs that wait for a deploy of this commit (in full), in any environment, the oldest first (G-110)."""
    rows = await store.find(RUNS, _WAITING, project_id, sha, order_by="t.started_at, t.id", limit=_MOST_WAITING)
    return [row for row in rows if waits_for(row.state, sha)]


# Everything that control shows of a project's automation, read by one statement (G-102, R-AUT-11).

BOUNDS = wire.ControlBounds()
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
    pull_requests: list[PullRequestRow]
    reports: list[wire.ControlReport]

    @property
    def scanned_all(self) -> bool:
        """Whether nothing was left unread that may need a look."""
        return all(len(found) <= SCANNED for found in (self.runs, self.receipts, self.pull_requests))


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


# Control as clients see it: contract, budgets, credentials, and the exceptions that need a person's look (G-102). An
# exception is worked out from how things truly stand at one time; none is stored, so none can be forgotten or go
# stale.

_UNSETTLED = frozenset({grants.Status.CONSUMED, grants.Status.UNRESOLVED})
_UNPROVEN = {
    "draft_pr": "A pull request may be open. CI has not proven it yet.",
    "auto_merge": "Auto-merge may be on. CI has not proven it yet.",
}


def control(project_id: str, snapshot: Snapshot, credentials: list[CredentialMetadata]) -> wire.AutomationControl:
    """Put the answer together."""
    contract = contract_of(snapshot.contract)
    budgets = _budgets(project_id, snapshot, contract)
    found = _exceptions(project_id, snapshot, contract, budgets)
    return wire.AutomationControl(
        project_id=project_id,
        server_time=snapshot.now,
        contract=None if snapshot.contract is None else _contract(snapshot.contract, snapshot.now),
        evidence_source=snapshot.evidence.evidence_source,
        historical_evidence_check=snapshot.evidence.historical_evidence_check,
        no_error_source=snapshot.no_error_source,
        budgets=budgets,
        credentials=credentials[: BOUNDS.max_credentials],
        exceptions=found[: BOUNDS.max_exceptions],
        recent_reports=snapshot.reports[: BOUNDS.max_reports],
        controls=_controls(project_id),
        bounds=BOUNDS,
        truncation=wire.ControlTruncation(
            credentials=len(credentials) > BOUNDS.max_credentials,
            exceptions=len(found) > BOUNDS.max_exceptions or not snapshot.scanned_all,
            recent_reports=len(snapshot.reports) > BOUNDS.max_reports,
        ),
        next_action="Check each exception. Pause stops everything at once."
        if found
        else ("Nothing needs your attention now."),
    )


def _contract(row: AutomationContractRow, now: int) -> wire.ControlContract:
    automations = []
    for automation in row.automations:
        policy = read_policy(automation.saved.policy)
        schedule = authority_of(contract_of(row), automation.saved.automation_id).policy
        trigger = None if schedule is None else schedule.schedule_trigger
        automations.append(
            wire.ControlAutomation(
                automation_id=automation.saved.automation_id,
                name=policy.name,
                playbook_id=automation.saved.playbook_id,
                enabled=automation.enabled,
                next_scheduled_for=None
                if trigger is None
                else next_firing(parse_cron(trigger.cron), trigger.timezone, now),
            )
        )
    return wire.ControlContract(
        contract_id=row.id,
        revision=row.state_revision,
        etag=row.etag,
        enabled=any(automation.enabled for automation in row.automations),
        paused=row.paused_at is not None,
        automations=automations,
    )


def _budgets(project_id: str, snapshot: Snapshot, contract: Contract) -> list[wire.ControlBudget]:
    ledgers = {row.id: row.ledger for row in snapshot.ledgers}
    budgets = []
    for automation in contract.automations:
        automation_id = automation.saved.automation_id
        authority = authority_of(contract, automation_id)
        assert authority.policy is not None, "an automation of the contract has a policy"
        ledger = ledgers.get(ledger_id(project_id, automation_id), Ledger())
        for budget in window_budgets(ledger, authority.policy.limits, authority.generation, snapshot.now):
            budgets.append(wire.ControlBudget(automation_id=automation_id, **budget._asdict()))  # noqa: PERF401
    return budgets


def _exceptions(
    project_id: str, snapshot: Snapshot, contract: Contract, budgets: list[wire.ControlBudget]
) -> list[wire.ControlException]:
    """Everything that needs a look, the newest first."""
    rows = [] if snapshot.contract is None else snapshot.contract.automations
    enabled = {row.saved.automation_id: row.enabled_at or 0 for row in rows if row.enabled}
    found = chain(
        *(of_run(bundle, contract) for bundle in snapshot.runs[:SCANNED]),
        *(of_receipt(bundle, contract) for bundle in snapshot.receipts[:SCANNED]),
        *(of_pull_request(row) for row in snapshot.pull_requests[:SCANNED]),
        of_budgets(budgets),
        of_credentials(enabled, frozenset(snapshot.runners), project_id),
    )
    return sorted(found, key=lambda item: (-item.since, item.kind, item.automation_id, item.run_id or ""))


def _controls(project_id: str) -> list[wire.Control]:
    """What only reduces authority; templated members stay in braces."""
    contract = f"/v1/projects/{project_id}/automation-contract"
    return [
        wire.Control("pause", "POST", f"{contract}/pause", False, False),
        wire.Control("disable_automation", "PATCH", contract + "/automations/{automation_id}", True, False),
        wire.Control("cancel_run", "POST", "/v1/automation-runs/{run_id}/cancel", False, True),
        wire.Control("release_claim", "POST", "/v1/cases/{case_id}/claims/{claim_id}/release", False, False),
        wire.Control("revoke_credential", "POST", "/v1/project-credentials/{credential_id}/revoke", False, False),
    ]


def of_run(bundle: RunBundle, contract: Contract) -> Iterator[wire.ControlException]:
    """What a run and all that hangs on it need."""
    book = bundle.book(contract)
    run, automation_id, path = book.run, book.run.automation_id, f"/v1/automation-runs/{book.run_id}"
    for approval_id, approval in book.approvals.items():
        if approval.status is approval_machine.Status.PENDING:
            yield wire.ControlException(
                kind="approval_pending",
                automation_id=automation_id,
                run_id=book.run_id,
                approval_id=approval_id,
                since=approval.requested_at,
                message="A run waits for an owner's decision.",
                operation=wire.ControlOperation("POST", f"/v1/automation-approvals/{approval_id}/decide"),
            )
    for grant_id, grant in book.grants.items():
        if grant.status in _UNSETTLED and grant.consumed_at is not None:
            yield wire.ControlException(
                kind="grant_unsettled",
                automation_id=automation_id,
                run_id=book.run_id,
                grant_id=grant_id,
                since=grant.consumed_at,
                message=_UNPROVEN[grant.kind],
                operation=wire.ControlOperation("GET", path),
            )
    if run.status in run_machine.OUTSIDE:
        yield wire.ControlException(
            kind="external_follow_up_required",
            automation_id=automation_id,
            run_id=book.run_id,
            since=run.finished_at or run.updated_at,
            message="A finished run left an external effect for you to inspect.",
            operation=wire.ControlOperation("GET", path),
        )
    if run.status is run_machine.Status.VERIFYING and run.deploy is not None:
        yield wire.ControlException(
            kind="verification_pending",
            automation_id=automation_id,
            run_id=book.run_id,
            since=run.deploy.recorded_at,
            message="A deploy is being verified.",
            operation=wire.ControlOperation("POST", f"{path}/verify"),
        )
    yield from _of_lease(book, bundle)


def _of_lease(book: Book, bundle: RunBundle) -> Iterator[wire.ControlException]:
    """A live run whose lease time has ended: nobody can act in it but CI, the server and an owner."""
    claim = book.claim
    lapsed = claim.status is claims.Status.EXPIRED or (
        claim.status is claims.Status.ACTIVE and not claims.lease_live(claim, book.lease, bundle.now)
    )
    if book.run.live and book.run.claim_id is not None and lapsed:
        yield wire.ControlException(
            kind="lease_expired",
            automation_id=book.run.automation_id,
            run_id=book.run_id,
            claim_id=book.run.claim_id,
            since=claim.lease_expires_at,
            message="The lease of a live run has ended.",
            operation=wire.ControlOperation("GET", f"/v1/automation-runs/{book.run_id}"),
        )


def of_receipt(bundle: ReceiptBundle, contract: Contract) -> Iterator[wire.ControlException]:
    """What a receipt needs: somebody to begin its work."""
    state = bundle.state(contract)
    if state.status is receipt_machine.Status.ISSUED:
        yield wire.ControlException(
            kind="receipt_unclaimed",
            automation_id=state.automation_id,
            since=state.issued_at,
            message="A receipt waits for its runner.",
            operation=wire.ControlOperation("GET", f"/v1/automation-trigger-receipts/{bundle.receipt.id}"),
        )


def of_pull_request(row: PullRequestRow) -> Iterator[wire.ControlException]:
    """An open pull request that nobody granted, once for each automation that it has turned off."""
    found = row.state.breach
    if found is None:
        return
    for automation_id in found.automation_ids:
        yield wire.ControlException(
            kind="ungranted_pull_request",
            automation_id=automation_id,
            run_id=row.run_id,
            since=found.found_at,
            message="A pull request that nobody granted is open. It has turned the automation off.",
            operation=wire.ControlOperation("GET", f"/v1/projects/{row.project_id}/pull-request-observations"),
        )


def of_budgets(budgets: Sequence[wire.ControlBudget]) -> Iterator[wire.ControlException]:
    """Budgets with nothing left; those that allow nothing at all are no exception."""
    for budget in budgets:
        if budget.remaining == 0 and budget.limit > 0 and budget.resets_at is not None:
            yield wire.ControlException(
                kind="budget_exhausted",
                automation_id=budget.automation_id,
                since=budget.resets_at - budget.window_seconds,
                message="A daily budget is used up.",
            )


def of_credentials(
    enabled: dict[str, int], runners: frozenset[str], project_id: str
) -> Iterator[wire.ControlException]:
    """Enabled automations (with the time they were enabled at) that no live runner credential can act for."""
    for automation_id, since in enabled.items():
        if automation_id not in runners:
            yield wire.ControlException(
                kind="runner_credential_missing",
                automation_id=automation_id,
                since=since,
                message="The automation is enabled, and no live runner credential can act for it.",
                operation=wire.ControlOperation("POST", f"/v1/projects/{project_id}/credentials"),
            )
