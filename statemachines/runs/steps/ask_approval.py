"""A runner asks a person, and an owner decides: approval and run in one unit (G-108)."""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from statemachines.runs import approval as approvals
from statemachines.runs import events as e
from statemachines.runs import run as runs
from statemachines.runs.approval import ApprovalAlreadyDecided, ApprovalOfEndedRun
from statemachines.runs.refusals import difference
from statemachines.runs.run import ApprovalRef, Run, RunTransitionNotAllowed
from statemachines.runs.steps.advance_run import enter, not_allowed
from statemachines.runs.steps.book import (
    Book,
    Effects,
    FencingToken,
    is_open,
    merge,
    require_automation,
    require_not_rejected,
    require_open,
)
from statemachines.runs.steps.rest_clocks import begin_rest, rest_after, rest_claim


class RequestApproval(msgspec.Struct, frozen=True):
    """A runner's question to a person. `evidence_json` is canonical JSON text."""

    action: e.Action
    summary: str
    evidence_json: str | None = None


def standing_request(run: Run, action: e.Action) -> ApprovalRef | None:
    """Return the request for an action that is pending or was granted: asking again changes nothing."""
    return next((ref for ref in run.approvals if ref.action == action and ref.outcome in {"pending", "approved"}), None)


def decide_request(book: Book, token: FencingToken, request: RequestApproval, now: int) -> tuple[str, Effects]:
    """Ask a person. Returns the request's id, and no events when the same question is open or was answered yes.

    Raises what enter raises, RunTransitionNotAllowed, ActionNotApproved.
    """
    require_open(book, now)
    require_automation(book.run, token.holder)
    standing = standing_request(book.run, request.action)
    if standing is not None and _still_stands(book, standing, now):
        return standing.approval_id, {}
    book, effects = enter(book, token, now)
    require_not_rejected(book.run, request.action)
    if book.run.status not in runs.BEFORE_EFFECT:
        raise not_allowed(book)
    if book.run.case_id is None and request.action != "escalate":
        raise RunTransitionNotAllowed(
            "The playbook of the run does not have this action.",
            next_action="Request an action of the run's playbook. A person cannot approve another one.",
            **difference("action", "escalate", request.action),
        )
    approval_id = approvals.approval_id(book.run_id, book.run.state_revision)
    expires_at = now + approvals.APPROVAL_SECONDS
    generation = book.authority.generation
    requested = approvals.ApprovalRequested(
        run_id=book.run_id,
        automation_id=book.run.automation_id,
        action=request.action,
        generation=generation,
        summary=request.summary,
        evidence_json=request.evidence_json,
        requested_at=now,
        expires_at=expires_at,
    )
    rest = begin_rest(book, expires_at, now)
    asked = e.RunApprovalRequested(
        approval_id, request.action, generation, expires_at, now, UNSET if rest is None else rest
    )
    rested = rest_claim(book, rest, now)
    return approval_id, merge(effects, {approval_id: [requested], book.run_id: [asked]}, rested)


def _still_stands(book: Book, ref: ApprovalRef, now: int) -> bool:
    if ref.outcome == "approved":
        return True
    approval = book.approval(ref.approval_id)
    return not approvals.settle(approval, book.authority, run_live=True, now=now)


def decide_approval(book: Book, approval_id: str, decision: approvals.OwnerDecision, now: int) -> Effects:
    """Record an owner's word, and let the run go on when it was the last one pending (G-108).

    Raises ApprovalNotFound, ApprovalOfEndedRun, ApprovalAlreadyDecided.
    """
    approval, run = book.approval(approval_id), book.run
    state, goes_on = approval, is_open(book, now)
    if not goes_on and approval.status not in {approvals.Status.ABSENT, *approvals.DECIDED}:
        raise ApprovalOfEndedRun(
            "The run of this request is over.", next_action="Read the run for its outcome. Nothing is left to decide."
        )
    for event in approvals.settle(approval, book.authority, run_live=goes_on, now=now):
        state = approvals.evolve(state, event)
    if approval.status is approvals.Status.PENDING and state.status is not approvals.Status.PENDING:
        raise ApprovalAlreadyDecided(
            "The request is no longer open.",
            next_action="Read the run. Make a new request for a new decision.",
            status=state.status.value,
        )
    events = approvals.decide_answer(approval, decision, now)
    if not events:
        return {}
    outcome: e.ApprovalOutcome = "approved" if decision.approve else "rejected"
    others = any(ref.approval_id != approval_id for ref in run.pending_approvals)
    settled = e.RunApprovalSettled if others else e.RunReviewEnded
    rest = rest_after(run, approval_id, now)
    decided = settled(approval_id, outcome, now, UNSET if rest is None else rest.until)
    return merge({approval_id: events, book.run_id: [decided]}, rest_claim(book, rest, now))
