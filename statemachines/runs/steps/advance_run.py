"""What a runner does in its run before and beside its grants: progress, the pull request, handing over.

Every runner command passes the same gates in the same order: the run is open, the runner is of its automation, the kill
switches are off (unless the command only reduces authority), and the fencing token is that of now.
"""

from __future__ import annotations

from typing import Literal, NoReturn

import msgspec

from statemachines.contracts.policy import require_enabled
from statemachines.runs import events as e
from statemachines.runs import run as runs
from statemachines.runs.refusals import PrProofMismatch, difference
from statemachines.runs.run import RunTransitionNotAllowed
from statemachines.runs.steps.book import (
    Book,
    Effects,
    FencingToken,
    carried,
    merge,
    require_automation,
    require_current,
    require_not_rejected,
    require_open,
)
from statemachines.runs.steps.end_run import end_run, find_follow_ups
from statemachines.runs.steps.rest_clocks import resume


class ReportedPullRequest(msgspec.Struct, frozen=True):
    """The pull request as its runner names it."""

    number: int
    url: str
    head_sha: str


def enter(book: Book, token: FencingToken, now: int, *, reduces_authority: bool = False) -> tuple[Book, Effects]:
    """Pass the gates of a runner command. Returns the book with a lapsed review and a rest ended, and their events.

    Raises what require_open, require_automation, require_enabled and require_current raise.
    """
    require_open(book, now)
    require_automation(book.run, token.holder)
    if not reduces_authority:
        require_enabled(book.authority, book.run.policy_sha256)
    require_current(book, token, now)
    effects = resume(book, now)
    return carried(book, effects), effects


def not_allowed(book: Book) -> RunTransitionNotAllowed:
    """Build the refusal of a step that the run's phase does not have."""
    run = book.run
    return RunTransitionNotAllowed(
        "The phase of the run does not allow this.",
        next_action="Read the run and follow its next_action.",
        phase=run.status.phase,
        status=run.status.outcome,
    )


def decide_progress(book: Book, token: FencingToken, now: int) -> Effects:
    """Say that the work has begun; nothing when it had. Raises what enter raises, RunTransitionNotAllowed."""
    book, effects = enter(book, token, now)
    match book.run.status:
        case runs.Status.RUNNING:
            return effects
        case runs.Status.STARTED:
            return merge(effects, {book.run_id: [e.RunProgressed(now)]})
        case _:
            raise not_allowed(book)


def _not_granted(field: str, expected: object, actual: object) -> PrProofMismatch:
    return PrProofMismatch(
        "The pull request is not the one that was granted.",
        next_action="Report the pull request of the grant.",
        **difference(field, expected, actual),
    )


def _other_pr(known: e.PullRequest, named: tuple[int, str, str]) -> PrProofMismatch:
    """Build the refusal of another pull request than the run has, by the first thing that differs."""
    has = (known.number, known.url, known.head_sha)
    field, expected, actual = next(
        found for found in zip(("number", "url", "head_sha"), has, named, strict=True) if found[1] != found[2]
    )
    return _not_granted(field, expected, actual)


def decide_report_pr(book: Book, token: FencingToken, reported: ReportedPullRequest, now: int) -> Effects:
    """Take a runner's word that the granted pull request is open; a CI has yet to prove it.

    Raises what enter raises, RunTransitionNotAllowed, PrProofMismatch.
    """
    book, effects = enter(book, token, now)
    run, grant = book.run, book.run.draft_grant
    if run.status not in runs.AWAITING_DEPLOY or grant is None:
        raise not_allowed(book)
    known = run.pull_request
    named = (reported.number, reported.url, reported.head_sha)
    if known is not None and (known.number, known.url, known.head_sha) == named:
        return effects
    if known is not None:
        raise _other_pr(known, named)
    if reported.head_sha != grant.head_sha:
        raise _not_granted("head_sha", grant.head_sha, reported.head_sha)
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


def refuse_step(book: Book, token: FencingToken, now: int) -> NoReturn:
    """Refuse a step that no run has, after the gates that every runner command passes.

    Raises what enter raises, else RunTransitionNotAllowed.
    """
    book, _ = enter(book, token, now, reduces_authority=True)
    raise not_allowed(book)


def decide_hand_over(book: Book, token: FencingToken, hand_over: HandOver, now: int) -> Effects:
    """End the run by its runner's own word. Open while paused, for it only reduces authority (G-114).

    Raises what enter raises, RunTransitionNotAllowed, ActionNotApproved.
    """
    book, effects = enter(book, token, now, reduces_authority=True)
    run = book.run
    if run.status is runs.Status.VERIFYING:
        raise not_allowed(book)
    if hand_over.outcome == "escalated":
        require_not_rejected(run, "escalate")
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
