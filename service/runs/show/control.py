"""Control as clients see it: contract, budgets, credentials, and the exceptions that need a person's look (G-102).

An exception is worked out from how things truly stand at one time; none is stored, so none can be forgotten or go
stale.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from projections.contracts import AutomationContractRow
from schemas.credentials import CredentialMetadata
from schemas.runs.control import (
    AutomationControl,
    Control,
    ControlAutomation,
    ControlBudget,
    ControlContract,
    ControlException,
    ControlOperation,
    ControlTruncation,
)
from service.runs.reads.bundles import ReceiptBundle, RunBundle, contract_of
from service.runs.reads.listed import BOUNDS, SCANNED, Snapshot
from statemachines.contracts.contract import Contract, authority_of
from statemachines.contracts.cron import next_firing, parse_cron
from statemachines.contracts.documents import read_policy
from statemachines.runs import approval as approvals
from statemachines.runs import claim as claims
from statemachines.runs import grant as grants
from statemachines.runs import receipt as receipts
from statemachines.runs import run as runs
from statemachines.runs.ledger import Ledger, ledger_id, window_budgets
from statemachines.runs.steps.book import Book

_UNSETTLED = frozenset({grants.Status.CONSUMED, grants.Status.UNRESOLVED})
_UNPROVEN = {
    "draft_pr": "A pull request may be open. CI has not proven it yet.",
    "auto_merge": "Auto-merge may be on. CI has not proven it yet.",
}


def control(project_id: str, snapshot: Snapshot, credentials: list[CredentialMetadata]) -> AutomationControl:
    """Put the answer together."""
    contract = contract_of(snapshot.contract)
    budgets = _budgets(project_id, snapshot, contract)
    found = _exceptions(project_id, snapshot, contract, budgets)
    return AutomationControl(
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
        truncation=ControlTruncation(
            credentials=len(credentials) > BOUNDS.max_credentials,
            exceptions=len(found) > BOUNDS.max_exceptions or not snapshot.scanned_all,
            recent_reports=len(snapshot.reports) > BOUNDS.max_reports,
        ),
        next_action="Check each exception. Pause stops everything at once."
        if found
        else ("Nothing needs your attention now."),
    )


def _contract(row: AutomationContractRow, now: int) -> ControlContract:
    automations = []
    for automation in row.automations:
        policy = read_policy(automation.saved.policy)
        schedule = authority_of(contract_of(row), automation.saved.automation_id).policy
        trigger = None if schedule is None else schedule.schedule_trigger
        automations.append(
            ControlAutomation(
                automation_id=automation.saved.automation_id,
                name=policy.name,
                playbook_id=automation.saved.playbook_id,
                enabled=automation.enabled,
                next_scheduled_for=None
                if trigger is None
                else next_firing(parse_cron(trigger.cron), trigger.timezone, now),
            )
        )
    return ControlContract(
        contract_id=row.id,
        revision=row.state_revision,
        etag=row.etag,
        enabled=any(automation.enabled for automation in row.automations),
        paused=row.paused_at is not None,
        automations=automations,
    )


def _budgets(project_id: str, snapshot: Snapshot, contract: Contract) -> list[ControlBudget]:
    ledgers = {row.id: row.ledger for row in snapshot.ledgers}
    budgets = []
    for automation in contract.automations:
        automation_id = automation.saved.automation_id
        authority = authority_of(contract, automation_id)
        assert authority.policy is not None, "an automation of the contract has a policy"
        ledger = ledgers.get(ledger_id(project_id, automation_id), Ledger())
        for budget in window_budgets(ledger, authority.policy.limits, authority.generation, snapshot.now):
            budgets.append(ControlBudget(automation_id=automation_id, **budget._asdict()))  # noqa: PERF401
    return budgets


def _exceptions(
    project_id: str, snapshot: Snapshot, contract: Contract, budgets: list[ControlBudget]
) -> list[ControlException]:
    """Everything that needs a look, the newest first."""
    rows = [] if snapshot.contract is None else snapshot.contract.automations
    enabled = {row.saved.automation_id: row.enabled_at or 0 for row in rows if row.enabled}
    found = chain(
        *(of_run(bundle, contract) for bundle in snapshot.runs[:SCANNED]),
        *(of_receipt(bundle, contract) for bundle in snapshot.receipts[:SCANNED]),
        of_budgets(budgets),
        of_credentials(enabled, frozenset(snapshot.runners), project_id),
    )
    return sorted(found, key=lambda item: (-item.since, item.kind, item.automation_id, item.run_id or ""))


def _controls(project_id: str) -> list[Control]:
    """What only reduces authority; templated members stay in braces."""
    contract = f"/v1/projects/{project_id}/automation-contract"
    return [
        Control("pause", "POST", f"{contract}/pause", False, False),
        Control("disable_automation", "PATCH", contract + "/automations/{automation_id}", True, False),
        Control("cancel_run", "POST", "/v1/automation-runs/{run_id}/cancel", False, True),
        Control("release_claim", "POST", "/v1/cases/{case_id}/claims/{claim_id}/release", False, False),
        Control("revoke_credential", "POST", "/v1/project-credentials/{credential_id}/revoke", False, False),
    ]


def of_run(bundle: RunBundle, contract: Contract) -> Iterator[ControlException]:
    """What a run and all that hangs on it need."""
    book = bundle.book(contract)
    run, automation_id, path = book.run, book.run.automation_id, f"/v1/automation-runs/{book.run_id}"
    for approval_id, approval in book.approvals.items():
        if approval.status is approvals.Status.PENDING:
            yield ControlException(
                kind="approval_pending",
                automation_id=automation_id,
                run_id=book.run_id,
                approval_id=approval_id,
                since=approval.requested_at,
                message="A run waits for an owner's decision.",
                operation=ControlOperation("POST", f"/v1/automation-approvals/{approval_id}/decide"),
            )
    for grant_id, grant in book.grants.items():
        if grant.status in _UNSETTLED and grant.consumed_at is not None:
            yield ControlException(
                kind="grant_unsettled",
                automation_id=automation_id,
                run_id=book.run_id,
                grant_id=grant_id,
                since=grant.consumed_at,
                message=_UNPROVEN[grant.kind],
                operation=ControlOperation("GET", path),
            )
    if run.status in runs.OUTSIDE:
        yield ControlException(
            kind="external_follow_up_required",
            automation_id=automation_id,
            run_id=book.run_id,
            since=run.finished_at or run.updated_at,
            message="A finished run left an external effect for you to inspect.",
            operation=ControlOperation("GET", path),
        )
    if run.status is runs.Status.VERIFYING and run.deploy is not None:
        yield ControlException(
            kind="verification_pending",
            automation_id=automation_id,
            run_id=book.run_id,
            since=run.deploy.recorded_at,
            message="A deploy is being verified.",
            operation=ControlOperation("POST", f"{path}/verify"),
        )
    yield from _of_lease(book, bundle)


def _of_lease(book: Book, bundle: RunBundle) -> Iterator[ControlException]:
    """A live run whose lease time has ended: nobody can act in it but CI, the server and an owner."""
    claim = book.claim
    lapsed = claim.status is claims.Status.EXPIRED or (
        claim.status is claims.Status.ACTIVE and not claims.lease_live(claim, book.lease, bundle.now)
    )
    if book.run.live and book.run.claim_id is not None and lapsed:
        yield ControlException(
            kind="lease_expired",
            automation_id=book.run.automation_id,
            run_id=book.run_id,
            claim_id=book.run.claim_id,
            since=claim.lease_expires_at,
            message="The lease of a live run has ended.",
            operation=ControlOperation("GET", f"/v1/automation-runs/{book.run_id}"),
        )


def of_receipt(bundle: ReceiptBundle, contract: Contract) -> Iterator[ControlException]:
    """What a receipt needs: somebody to begin its work."""
    state = bundle.state(contract)
    if state.status is receipts.Status.ISSUED:
        yield ControlException(
            kind="receipt_unclaimed",
            automation_id=state.automation_id,
            since=state.issued_at,
            message="A receipt waits for its runner.",
            operation=ControlOperation("GET", f"/v1/automation-trigger-receipts/{bundle.receipt.id}"),
        )


def of_budgets(budgets: Sequence[ControlBudget]) -> Iterator[ControlException]:
    """Budgets with nothing left; those that allow nothing at all are no exception."""
    for budget in budgets:
        if budget.remaining == 0 and budget.limit > 0 and budget.resets_at is not None:
            yield ControlException(
                kind="budget_exhausted",
                automation_id=budget.automation_id,
                since=budget.resets_at - budget.window_seconds,
                message="A daily budget is used up.",
            )


def of_credentials(enabled: dict[str, int], runners: frozenset[str], project_id: str) -> Iterator[ControlException]:
    """Enabled automations (with the time they were enabled at) that no live runner credential can act for."""
    for automation_id, since in enabled.items():
        if automation_id not in runners:
            yield ControlException(
                kind="runner_credential_missing",
                automation_id=automation_id,
                since=since,
                message="The automation is enabled, and no live runner credential can act for it.",
                operation=ControlOperation("POST", f"/v1/projects/{project_id}/credentials"),
            )
