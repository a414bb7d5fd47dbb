"""How runs end, and what time makes of everything around them (G-103, G-106, G-113, G-119, R-AUT-51).

An end takes what hangs on the run with it in the same transaction: its claim, its unconsumed grants with their
reservations, its pending requests. Nothing outside the service is touched: what a consumed grant may have begun is
listed as follow-ups for a person.

The `settle_*` functions say what has become of a thing by now without anybody having acted. A read applies their
events without recording them, the sweep records them, and so no answer depends on the sweep having run.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import get_args

import msgspec

from statemachines.kernel.machine import Event, Rejection, allowed_next
from statemachines.runs import approval as approvals
from statemachines.runs import claim
from statemachines.runs import claim as claims
from statemachines.runs import events as e
from statemachines.runs import grant as grants
from statemachines.runs import ledger as ledgers
from statemachines.runs import run as runs
from statemachines.runs.steps.book import (
    Book,
    Effects,
    awake,
    carried,
    is_open,
    is_resting,
    merge,
    overdue,
    refused,
    rest_end,
    runner_may_act,
)


class CancelRun(msgspec.Struct, frozen=True):
    """A wish to end service authority over a run; the command key recognises its repeat (G-113)."""

    command_key_sha256: str
    reason: str | None = None


def find_follow_ups(run: runs.Run) -> list[e.FollowUp]:
    """What is left outside the service when the run ends now; empty before any provider effect can have begun."""
    draft, merge_grant, opened = run.draft_grant, run.merge_grant, run.pull_request
    if draft is None or draft.consumed_at is None:
        return []
    items = []
    reference = draft.head_branch if opened is None else opened.url
    merged, proven = run.proof("merged") is not None, draft.settled_at is not None
    if not merged:
        closes: e.Observation = "merged" if proven else "pr_opened"
        items.append(
            e.FollowUp(kind="inspect_pull_request", grant_id=draft.grant_id, reference=reference, settled_by=closes)
        )
        items.append(
            e.FollowUp(kind="inspect_ci", grant_id=draft.grant_id, reference=draft.head_sha, settled_by=closes)
        )
    if merge_grant is not None and merge_grant.consumed_at is not None and not merged:
        closes = "merged" if merge_grant.settled_at is not None else "auto_merge_enabled"
        items.append(
            e.FollowUp(kind="inspect_auto_merge", grant_id=merge_grant.grant_id, reference=reference, settled_by=closes)
        )
    if run.deploy is not None:
        items.append(e.FollowUp(kind="inspect_deploy", grant_id=None, reference=run.deploy.deploy_id, settled_by=None))
    return items


def end_run(book: Book, event: Event, now: int, *, revoke_claim: bool) -> Effects:
    """End the run with `event`, and everything that hangs on it. Raises Moved when something was not loaded."""
    run = book.run
    effects: Effects = {book.run_id: [event]}
    if run.claim_id is not None:
        close = claim.decide_revoke if revoke_claim else claim.decide_complete
        effects[run.claim_id] = close(book.claim, book.lease, now)
    for ref in (run.draft_grant, run.merge_grant):
        if ref is not None:
            grant = book.grant(ref.grant_id)
            effects[ref.grant_id] = grants.settle(grant, book.authority, run_live=False, now=now)
            if grant.status is grants.Status.AUTHORIZED:
                returned = ledgers.decide_return_pr(book.ledger, ref.grant_id, now)
                effects.setdefault(book.ledger_id, []).extend(returned)
    for pending in run.pending_approvals:
        approval = book.approval(pending.approval_id)
        effects[pending.approval_id] = approvals.settle(approval, book.authority, run_live=False, now=now)
    return merge(effects)


def decide_cancel(book: Book, command: CancelRun, now: int) -> Effects:
    """Cancel a run. The same command key again records nothing. Raises RunNotFound, RunTerminal."""
    run = book.run
    if run.command_key_sha256 == command.command_key_sha256:
        return {}
    if run.status is runs.Status.ABSENT:
        raise runs.RunNotFound("There is no such run.", next_action="List the runs of the project.")
    if not is_open(book, now):
        raise runs.RunTerminal("The run is over.", next_action="Read the run for its outcome. It has already ended.")
    outside = run.status not in runs.BEFORE_EFFECT
    cancelled = e.RunCancelledOutside if outside else e.RunCancelled
    return end_run(
        book,
        cancelled(
            reason=command.reason,
            cause=None,
            command_key_sha256=command.command_key_sha256,
            follow_ups=find_follow_ups(run),
            at=now,
        ),
        now,
        revoke_claim=True,
    )


def settle_run(book: Book, now: int) -> Effects:
    """What has become of a run by `now`: over by time, or no longer in review; nothing while it goes on."""
    book = awake(book)
    run = book.run
    over = overdue(run, book.claim, book.lease, now)
    if over is None:
        return settle_review(book, now)
    failed = e.RunFailed if run.status in runs.BEFORE_EFFECT else e.RunFailedOutside
    event = failed(
        reason=None, cause=over.cause, command_key_sha256=None, follow_ups=find_follow_ups(run), at=over.since
    )
    return end_run(book, event, now, revoke_claim=False)


def settle_review(book: Book, now: int) -> Effects:
    """End a review whose every pending request has lapsed; requests that lapse one by one are settled on their own."""
    run = book.run
    if run.status is not runs.Status.IN_REVIEW:
        return {}
    effects: Effects = {}
    lapsed: dict[str, list[str]] = {"expired": [], "cancelled": []}
    for ref in run.pending_approvals:
        approval = book.approval(ref.approval_id)
        events = approvals.settle(approval, book.authority, run_live=True, now=now)
        state = approval
        for event in events:
            state = approvals.evolve(state, event)
        if state.status is approvals.Status.PENDING:
            return {}
        lapsed["expired" if state.status is approvals.Status.EXPIRED else "cancelled"].append(ref.approval_id)
        effects[ref.approval_id] = events
    effects[book.run_id] = [e.RunReviewLapsed(lapsed["expired"], lapsed["cancelled"], now)]
    return merge(effects)


def settle_grant(book: Book, grant_id: str, now: int) -> Effects:
    """What has become of a grant by `now`, with its reservation given back when it ended unconsumed."""
    grant = book.grant(grant_id)
    events = grants.settle(grant, book.authority, run_live=is_open(book, now), now=now)
    if not events or grant.status is not grants.Status.AUTHORIZED:
        return merge({grant_id: events})
    return merge({grant_id: events, book.ledger_id: ledgers.decide_return_pr(book.ledger, grant_id, now)})


def as_of(book: Book, now: int) -> Book:
    """Return the book as it truly stands at `now`, recorded or not: what every read shows."""
    book = awake(book)
    book = carried(book, settle_run(book, now))
    live = is_open(book, now)
    effects: Effects = {
        grant_id: grants.settle(grant, book.authority, run_live=live, now=now)
        for grant_id, grant in book.grants.items()
    }
    for approval_id, approval in book.approvals.items():
        effects[approval_id] = approvals.settle(approval, book.authority, run_live=live, now=now)
    return msgspec.structs.replace(carried(book, effects), at=now)


def decide_fence_run(book: Book, now: int) -> Effects:
    """End a run because its project is being deleted; nothing when it was over."""
    if not book.run.live:
        return {}
    event = e.RunFenced(reason=None, cause=None, command_key_sha256=None, follow_ups=find_follow_ups(book.run), at=now)
    return end_run(book, event, now, revoke_claim=True)


# A review rests the clocks of its run: lease and deadline wait until the runner is back (G-185). A rest is part of
# what the clocks say, so that nothing else has to know of it: while it lasts, run and claim have the latest moments
# at which their time can end. A decision brings them nearer, and the first command after it makes them run on from
# now. A rest that a stop has ended is worked out when it is looked at (`awake`).

RETURN_SECONDS = 86400
"""How long a rest may last after the last decision, or after the time for it."""

MOST_RESTED_SECONDS = 172800
"""How long all rests of a run may last together."""

LEAST_LEASE_SECONDS = 300
"""What is left of a lease at least when a rest is over."""


def begin_rest(book: Book, expires_at: int, now: int) -> e.Rest | None:
    """Return the rest for a request that expires at `expires_at`; None when the reviews of the run took all their time.

    The rest of another pending request goes on.
    """
    run = book.run
    if run.rest is not None:
        if not is_resting(book, now):
            return run.rest
        most = run.rest.began_at + MOST_RESTED_SECONDS - run.rested_seconds
        until = min(max(run.rest.until, expires_at + RETURN_SECONDS), most)
        return msgspec.structs.replace(run.rest, until=until)
    left = MOST_RESTED_SECONDS - run.rested_seconds
    if left <= 0:
        return None
    return e.Rest(
        began_at=now,
        until=min(expires_at + RETURN_SECONDS, now + left),
        generation=book.authority.generation,
        deadline_left=run.deadline_at - now,
        lease_left=0 if run.claim_id is None else max(LEAST_LEASE_SECONDS, book.claim.lease_expires_at - now),
    )


def rest_after(run: runs.Run, approval_id: str, now: int) -> e.Rest | None:
    """Return the rest of a run once this request is decided; None when its clocks do not rest."""
    if run.rest is None:
        return None
    others = [ref.expires_at for ref in run.pending_approvals if ref.approval_id != approval_id]
    return msgspec.structs.replace(run.rest, until=min(run.rest.until, max([now, *others]) + RETURN_SECONDS))


def rest_claim(book: Book, rest: e.Rest | None, now: int) -> Effects:
    """Move the lease of a resting run with its rest."""
    if rest is None or book.run.claim_id is None or book.claim.status is not claims.Status.ACTIVE:
        return {}
    deadline = rest.until + rest.deadline_left
    lease_end = min(rest.until + rest.lease_left, deadline)
    return {book.run.claim_id: [claims.ClaimRested(lease_end, deadline, True, now)]}


def renew_resting(book: Book, holder: claims.Holder, lease_epoch: int, now: int) -> Effects:
    """Extend the lease of a run whose clocks may rest. Raises what claims.decide_renew raises."""
    effects = resume(book, now)
    after = carried(book, effects)
    renewed = claims.decide_renew(after.claim, after.lease, after.authority, holder, lease_epoch, now)
    return merge(effects, {book.run.claim_id or "": renewed})


def resume(book: Book, now: int) -> Effects:
    """End a lapsed review of the run, and then its rest, for a command of its runner."""
    effects = settle_review(book, now)
    return merge(effects, end_rest(carried(book, effects), now))


def end_rest(book: Book, now: int) -> Effects:
    """Let the clocks run on for the first command of the runner after the review. A pending request keeps the rest."""
    run, rest = book.run, book.run.rest
    if rest is None or run.pending_approvals:
        return {}
    end = rest_end(book, now)
    deadline = end + rest.deadline_left
    effects: Effects = {book.run_id: [e.RunResumed(end - rest.began_at, deadline, now)]}
    if run.claim_id is not None and book.claim.status is claims.Status.ACTIVE:
        lease_end = min(end + rest.lease_left, deadline)
        effects[run.claim_id] = [claims.ClaimRested(lease_end, deadline, False, now)]
    return effects


# What is left to do in a run, for the 409s that its state decides (G-139, G-178). The table says what a phase
# allows. Which of that has a ground now is data: grants, proofs, a person's word, the time that a runner still has.

DECIDED_BY_RUN: tuple[type[Rejection], ...] = (
    runs.RunTransitionNotAllowed,
    runs.RunTerminal,
    approvals.ApprovalPending,
    approvals.ActionNotApproved,
    grants.GrantNotAvailable,
    grants.GrantAlreadyAuthorized,
)
"""Refusals for which the state of the run is the reason."""

_RUNNERS = frozenset(
    kind.TOPIC
    for kind in (
        e.RunProgressed,
        e.RunCharged,
        e.RunChargedInReview,
        e.RunChargedAwaitingProof,
        e.RunChargedAwaitingDeploy,
        e.RunApprovalRequested,
        e.RunDraftPrAuthorized,
        e.RunDraftPrConsumed,
        e.RunPrReported,
        e.RunAutoMergeAuthorized,
        e.RunAutoMergeConsumed,
        e.RunReportSourceIntended,
        e.RunReported,
        e.RunFailed,
        e.RunFailedOutside,
        e.RunEscalated,
        e.RunEscalatedOutside,
    )
)


@contextmanager
def telling_what_is_left(book: Book, now: int) -> Iterator[None]:
    """Decide on a run within this: a refusal that its state is the reason for tells what is left as `allowed_next`."""
    try:
        yield
    except DECIDED_BY_RUN as refusal:
        refusal.details.setdefault("allowed_next", find_left(book, now))
        raise


def find_left(book: Book, now: int) -> list[str]:
    """Topics that the run can take at `now`; empty when it is over with nothing open outside the service."""
    book = as_of(book, now)
    without = _groundless(book) if runner_may_act(book, now) else _groundless(book) | _RUNNERS
    return [topic for topic in allowed_next(runs.MACHINE, book.run) if topic not in without]


def _groundless(book: Book) -> set[str]:
    """Topics that have no ground yet, or no more, where the table allows them: grants and proofs are data (G-110)."""
    run = book.run
    weekly, merging = run.case_id is None, run.terms.delivery.mode == "auto_merge"
    has_source = book.report.source is not None
    opened, ready = run.proof("pr_opened") is not None, run.proof("checks_passed") is not None
    on, merged = run.proof("auto_merge_enabled") is not None, run.proof("merged") is not None
    closed, reopened = run.sight("closed") is not None, run.sight("reopened") is not None
    settles = any(item.settled_by is not None for item in run.follow_ups)
    stays = any(item.settled_by is None for item in run.follow_ups)
    spent = run.merge_grant is not None and run.merge_grant.consumed_at is not None
    granted, merge_granted = _stands(book, "draft_pr"), _stands(book, "auto_merge")
    askable: tuple[e.Action, ...] = ("escalate",) if weekly else get_args(e.Action)
    without = {
        e.RunApprovalRequested.TOPIC: all(refused(run, action) for action in askable),
        e.RunDraftPrAuthorized.TOPIC: weekly or granted or refused(run, "draft_pr"),
        e.RunDraftPrConsumed.TOPIC: not granted or refused(run, "draft_pr"),
        e.RunPrReported.TOPIC: run.pull_request is not None,
        e.RunPrProven.TOPIC: opened,
        e.RunChecksProven.TOPIC: not (opened and merging) or ready,
        e.RunAutoMergeAuthorized.TOPIC: not ready or spent or merge_granted or refused(run, "auto_merge"),
        e.RunAutoMergeConsumed.TOPIC: not merge_granted or refused(run, "auto_merge"),
        e.RunAutoMergeProven.TOPIC: not (ready and spent) or on,
        e.RunMergeProven.TOPIC: not (on if merging else opened) or merged,
        e.RunMergeProvenLater.TOPIC: merged,
        e.RunClosedUnmerged.TOPIC: merged,
        e.RunClosedDeployed.TOPIC: merged,
        e.RunMergedChanged.TOPIC: merged,
        e.RunMergedChangedDeployed.TOPIC: merged,
        e.RunClosedAfterFailure.TOPIC: not settles or stays,
        e.RunClosedAfterEscalation.TOPIC: not settles or stays,
        e.RunClosedAfterCancel.TOPIC: not settles or stays,
        e.RunSeenAfterEnd.TOPIC: (not closed or reopened) and not (settles and stays),
        e.RunDeployBound.TOPIC: run.proven_commit is None,
        e.RunReportSourceIntended.TOPIC: not weekly or has_source,
        e.RunReported.TOPIC: not (weekly and has_source),
        e.RunEscalated.TOPIC: refused(run, "escalate"),
        e.RunEscalatedOutside.TOPIC: refused(run, "escalate"),
    }
    return {topic for topic, holds in without.items() if holds}


def _stands(book: Book, kind: e.GrantKind) -> bool:
    ref = book.run.grant(kind)
    return ref is not None and book.grant(ref.grant_id).status is grants.Status.AUTHORIZED
