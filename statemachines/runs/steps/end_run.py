"""How runs end, and what time makes of everything around them (G-103, G-106, G-113, G-119, R-AUT-51).

An end takes what hangs on the run with it in the same transaction: its claim, its unconsumed grants with their
reservations, its pending requests. Nothing outside the service is touched: what a consumed grant may have begun is
listed as follow-ups for a person.

The `settle_*` functions say what has become of a thing by now without anybody having acted. A read applies their
events without recording them, the sweep records them, and so no answer depends on the sweep having run.
"""

from __future__ import annotations

import msgspec

from statemachines.kernel.machine import Event
from statemachines.runs import approval as approvals
from statemachines.runs import end_lease
from statemachines.runs import events as e
from statemachines.runs import grant as grants
from statemachines.runs import ledger as ledgers
from statemachines.runs import run as runs
from statemachines.runs.run import Run, RunNotFound, RunTerminal
from statemachines.runs.steps.book import Book, Effects, awake, carried, is_open, merge, overdue


class CancelRun(msgspec.Struct, frozen=True):
    """A wish to end service authority over a run; the command key recognises its repeat (G-113)."""

    command_key_sha256: str
    reason: str | None = None


def find_follow_ups(run: Run) -> list[e.FollowUp]:
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
        close = end_lease.decide_revoke if revoke_claim else end_lease.decide_complete
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
        raise RunNotFound("There is no such run.", next_action="List the runs of the project.")
    if not is_open(book, now):
        raise RunTerminal("The run is over.", next_action="Read the run for its outcome. It has already ended.")
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
