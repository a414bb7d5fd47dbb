"""What a runner does in its run before and beside its grants: progress, charges, requests, handing over (G-106..G-108).

Every runner command passes the same gates in the same order: the run is open, the runner is its own, the kill
switches are off (unless the command only reduces authority), and the fence is exact.
"""

from __future__ import annotations

from typing import Literal, NoReturn

import msgspec

from statemachines.contracts.policy import require_enabled
from statemachines.kernel.machine import allowed_next
from statemachines.runs import approval as approvals
from statemachines.runs import events as e
from statemachines.runs import ledger as ledgers
from statemachines.runs import run as runs
from statemachines.runs.book import (
    Book,
    Effects,
    Fence,
    carried,
    is_open,
    merge,
    require_fence,
    require_open,
    require_runner,
)
from statemachines.runs.closing import end_run, find_follow_ups, settle_review
from statemachines.runs.ledger import Amounts
from statemachines.runs.refusals import (
    ApprovalAlreadyDecided,
    ApprovalRejected,
    PrProofMismatch,
    RunTransitionNotAllowed,
)
from statemachines.runs.run import RUN, ApprovalRef, Run


class Usage(msgspec.Struct, frozen=True):
    """What a runner is about to use."""

    amounts: Amounts
    label: str | None = None


class RequestApproval(msgspec.Struct, frozen=True):
    """A runner's question to a person. `evidence_json` is canonical JSON text."""

    action: e.Action
    summary: str
    evidence_json: str | None = None


class ReportedPullRequest(msgspec.Struct, frozen=True):
    """The pull request as its runner names it."""

    number: int
    url: str
    head_sha: str


def enter(book: Book, fence: Fence, now: int, *, reduces_authority: bool = False) -> tuple[Book, Effects]:
    """Pass the gates of a runner command. Returns the book with a lapsed review ended, and the events that say so.

    Raises what require_open, require_runner, require_enabled and require_fence raise.
    """
    require_open(book, now)
    require_runner(book.run, fence.holder)
    if not reduces_authority:
        require_enabled(book.authority, book.run.policy_sha256)
    require_fence(book, fence, now)
    effects = settle_review(book, now)
    return carried(book, effects), effects


def not_allowed(run: Run) -> RunTransitionNotAllowed:
    """Build the refusal of a step that the run's phase does not have."""
    return RunTransitionNotAllowed(
        "The phase of the run does not allow this.",
        next_action="Read the run; its phase says what comes next.",
        phase=run.status.phase,
        status=run.status.outcome,
        allowed_next=allowed_next(RUN, run),
    )


def rejected(run: Run, action: e.Action) -> bool:
    """Whether a person refused this action in this run, or let the request expire (G-108)."""
    return any(ref.action == action and ref.outcome in {"rejected", "expired"} for ref in run.approvals)


def refuse_rejected(run: Run, action: e.Action) -> None:
    """Raise ApprovalRejected when the action was refused in this run."""
    if rejected(run, action):
        raise ApprovalRejected(
            "A person has refused this action for the run.", next_action="Escalate, or end the run as failed."
        )


def decide_progress(book: Book, fence: Fence, now: int) -> Effects:
    """Say that the work has begun; nothing when it had. Raises what enter raises, RunTransitionNotAllowed."""
    book, effects = enter(book, fence, now)
    match book.run.status:
        case runs.Status.RUNNING:
            return effects
        case runs.Status.STARTED:
            return merge(effects, {book.run_id: [e.RunProgressed(now)]})
        case _:
            raise not_allowed(book.run)


_CHARGED: dict[runs.Status, type[e.Charge]] = {
    runs.Status.STARTED: e.RunCharged,
    runs.Status.RUNNING: e.RunCharged,
    runs.Status.IN_REVIEW: e.RunChargedInReview,
    runs.Status.PROOF_PENDING: e.RunChargedAwaitingProof,
    runs.Status.PR_OPENED: e.RunChargedAwaitingDeploy,
}


def decide_usage(book: Book, fence: Fence, usage: Usage, now: int) -> Effects:
    """Charge what is about to be used, all of it or nothing (R-AUT-35).

    Raises what enter raises, RunTransitionNotAllowed, BudgetExhausted.
    """
    book, effects = enter(book, fence, now)
    charged = _CHARGED.get(book.run.status)
    if charged is None:
        raise not_allowed(book.run)
    amounts = usage.amounts
    charges = ledgers.decide_charge_usage(book.ledger, book.run.terms.limits, book.run_id, amounts, now)
    event = charged(amounts.turns, amounts.cost_usd, amounts.runtime_seconds, usage.label, now)
    return merge(effects, {book.ledger_id: charges, book.run_id: [event]})


def standing_request(run: Run, action: e.Action) -> ApprovalRef | None:
    """Return the request for an action that is pending or was granted: asking again changes nothing."""
    return next((ref for ref in run.approvals if ref.action == action and ref.outcome in {"pending", "approved"}), None)


def decide_request(book: Book, fence: Fence, request: RequestApproval, now: int) -> tuple[str, Effects]:
    """Ask a person. Returns the request's id, and no events when the same question is open or was answered yes.

    Raises what enter raises, RunTransitionNotAllowed, ApprovalRejected.
    """
    require_open(book, now)
    require_runner(book.run, fence.holder)
    standing = standing_request(book.run, request.action)
    if standing is not None and _still_stands(book, standing, now):
        return standing.approval_id, {}
    book, effects = enter(book, fence, now)
    refuse_rejected(book.run, request.action)
    if book.run.status not in runs.BEFORE_EFFECT:
        raise not_allowed(book.run)
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
    asked = e.RunApprovalRequested(approval_id, request.action, generation, expires_at, now)
    return approval_id, merge(effects, {approval_id: [requested], book.run_id: [asked]})


def _still_stands(book: Book, ref: ApprovalRef, now: int) -> bool:
    if ref.outcome == "approved":
        return True
    approval = book.approval(ref.approval_id)
    return not approvals.settle(approval, book.authority, run_live=True, now=now)


def decide_approval(book: Book, approval_id: str, verdict: approvals.Verdict, now: int) -> Effects:
    """Record an owner's word, and let the run go on when it was the last one pending (G-108).

    Raises ApprovalNotFound, ApprovalAlreadyDecided.
    """
    approval, run = book.approval(approval_id), book.run
    state = approval
    for event in approvals.settle(approval, book.authority, run_live=is_open(book, now), now=now):
        state = approvals.evolve(state, event)
    if approval.status is approvals.Status.PENDING and state.status is not approvals.Status.PENDING:
        raise ApprovalAlreadyDecided(
            "The request is no longer open.",
            next_action="Read the run; a new request has to be made for a new decision.",
            status=state.status.value,
        )
    events = approvals.decide(approval, verdict, now)
    if not events:
        return {}
    outcome: e.ApprovalOutcome = "approved" if verdict.approve else "rejected"
    others = any(ref.approval_id != approval_id for ref in run.pending_approvals)
    settled = e.RunApprovalSettled if others else e.RunReviewEnded
    return {approval_id: events, book.run_id: [settled(approval_id, outcome, now)]}


def decide_report_pr(book: Book, fence: Fence, reported: ReportedPullRequest, now: int) -> Effects:
    """Take a runner's word that the granted pull request is open; a CI has yet to prove it.

    Raises what enter raises, RunTransitionNotAllowed, PrProofMismatch.
    """
    book, effects = enter(book, fence, now)
    run, grant = book.run, book.run.draft_grant
    if run.status not in runs.AWAITING_DEPLOY or grant is None:
        raise not_allowed(run)
    known = run.pull_request
    named = (reported.number, reported.url, reported.head_sha)
    if known is not None and (known.number, known.url, known.head_sha) == named:
        return effects
    if known is not None or reported.head_sha != grant.head_sha:
        raise PrProofMismatch(
            "The pull request is not the one that was granted.", next_action="Report the pull request of the grant."
        )
    pull_request = e.PullRequest(
        number=reported.number,
        url=reported.url,
        head_branch=grant.head_branch,
        base_branch=run.terms.base_branch,
        head_sha=grant.head_sha,
        draft=run.terms.delivery.mode == "review_required",
        grant_id=grant.grant_id,
    )
    return merge(effects, {book.run_id: [e.RunPrReported(pull_request, now)]})


class HandOver(msgspec.Struct, frozen=True):
    """How a runner ends its run, and why; the summary is its own account, for people to read."""

    outcome: Literal["failed", "escalated"]
    reason: str
    summary_md: str | None = None


def refuse_step(book: Book, fence: Fence, now: int) -> NoReturn:
    """Refuse a step that no run has, after the gates that every runner command passes.

    Raises what enter raises, else RunTransitionNotAllowed.
    """
    book, _ = enter(book, fence, now, reduces_authority=True)
    raise not_allowed(book.run)


def decide_hand_over(book: Book, fence: Fence, hand_over: HandOver, now: int) -> Effects:
    """End the run by its runner's own word. Open while paused, for it only reduces authority (G-114).

    Raises what enter raises, RunTransitionNotAllowed, ApprovalRejected.
    """
    book, effects = enter(book, fence, now, reduces_authority=True)
    run = book.run
    if run.status is runs.Status.VERIFYING:
        raise not_allowed(run)
    if hand_over.outcome == "escalated":
        refuse_rejected(run, "escalate")
    outside = run.status in runs.AWAITING_DEPLOY
    kinds = {
        ("failed", False): e.RunFailed,
        ("failed", True): e.RunFailedOutside,
        ("escalated", False): e.RunEscalated,
        ("escalated", True): e.RunEscalatedOutside,
    }
    event = kinds[hand_over.outcome, outside](
        reason=hand_over.reason,
        cause=None,
        command_key_sha256=None,
        follow_ups=find_follow_ups(run),
        at=now,
        summary_md=hand_over.summary_md,
    )
    return merge(effects, end_run(book, event, now, revoke_claim=False))
