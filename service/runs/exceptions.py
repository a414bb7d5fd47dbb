"""Operational exceptions: what in a project's automation needs a person's look now (G-102).

Each is worked out from how things truly stand at one time; none is stored, so none can be forgotten or go stale.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from schemas.runs.control import ControlBudget, ControlException, ControlOperation
from service.runs.reading import ReceiptBundle, RunBundle
from statemachines.contracts.contract import Contract
from statemachines.runs import approval as approvals
from statemachines.runs import claim as claims
from statemachines.runs import grant as grants
from statemachines.runs import receipt as receipts
from statemachines.runs import run as runs
from statemachines.runs.book import Book

_UNSETTLED = frozenset({grants.Status.CONSUMED, grants.Status.UNRESOLVED})


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
                message="A provider effect may have begun, and CI has not proven what became of it.",
                operation=ControlOperation("GET", path),
            )
    if run.status in runs.OUTSIDE:
        yield ControlException(
            kind="external_follow_up_required",
            automation_id=automation_id,
            run_id=book.run_id,
            since=run.finished_at or run.updated_at,
            message="A finished run left something outside the service that has to be inspected.",
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
