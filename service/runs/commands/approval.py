"""Approvals: a runner asks, an owner decides, time settles (G-108)."""

from __future__ import annotations

from projections.runs import ApprovalRow, RunRow
from service.eventstore.declare.commands import Intent
from service.runs.commands.scope import Ran, RunScope
from statemachines.runs import approval as approvals
from statemachines.runs.approval import OwnerDecision
from statemachines.runs.steps import use_grant
from statemachines.runs.steps.book import Book, Effects, FencingToken
from statemachines.runs.steps.end_run import settle_run
from statemachines.runs.steps.use_grant import RequestApproval


def request(row: RunRow, token: FencingToken, wish: RequestApproval) -> Intent[Ran[str]]:
    """Ask a person; the result is the approval's id."""
    scope = RunScope.of(row, new_approval=approvals.approval_id(row.id, token.state_revision))
    return scope.intent(lambda book, now: use_grant.decide_request(book, token, wish, now))


def decide(row: RunRow, approval_id: str, decision: OwnerDecision) -> Intent[Ran[None]]:
    """Record an owner's word on a request."""
    scope = RunScope.of(row, new_approval=approval_id)
    return scope.intent(lambda book, now: (None, use_grant.decide_approval(book, approval_id, decision, now)))


def settle(row: RunRow, approval: ApprovalRow) -> Intent[Ran[None]]:
    """Record what has become of a request, and end the review when it was the last (G-119)."""

    def act(book: Book, now: int) -> tuple[None, Effects]:
        effects = settle_run(book, now)
        if approval.id in effects:
            return None, effects
        lapsed = approvals.settle(book.approval(approval.id), book.authority, run_live=book.run.live, now=now)
        return None, {approval.id: lapsed} if lapsed else {}

    return RunScope.of(row, new_approval=approval.id).intent(act)
