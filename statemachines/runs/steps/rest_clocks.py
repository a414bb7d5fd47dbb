"""A review rests the clocks of its run: lease and deadline wait until the runner is back (G-185).

A rest is part of what the clocks say, so that nothing else has to know of it: while it lasts, run and claim have the
latest moments at which their time can end. A decision brings them nearer, and the first command after it makes them run
on from now. A rest that a stop has ended is worked out when it is looked at (`awake`).
"""

from __future__ import annotations

import msgspec

from statemachines.runs import claim as claims
from statemachines.runs import events as e
from statemachines.runs.events import Rest
from statemachines.runs.run import Run
from statemachines.runs.steps.book import Book, Effects, carried, is_resting, merge, rest_end
from statemachines.runs.steps.end_run import settle_review

RETURN_SECONDS = 86400
"""How long a rest may last after the last decision, or after the time for it."""

MOST_RESTED_SECONDS = 172800
"""How long all rests of a run may last together."""

LEAST_LEASE_SECONDS = 300
"""What is left of a lease at least when a rest is over."""


def begin_rest(book: Book, expires_at: int, now: int) -> Rest | None:
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
    return Rest(
        began_at=now,
        until=min(expires_at + RETURN_SECONDS, now + left),
        generation=book.authority.generation,
        deadline_left=run.deadline_at - now,
        lease_left=0 if run.claim_id is None else max(LEAST_LEASE_SECONDS, book.claim.lease_expires_at - now),
    )


def rest_after(run: Run, approval_id: str, now: int) -> Rest | None:
    """Return the rest of a run once this request is decided; None when its clocks do not rest."""
    if run.rest is None:
        return None
    others = [ref.expires_at for ref in run.pending_approvals if ref.approval_id != approval_id]
    return msgspec.structs.replace(run.rest, until=min(run.rest.until, max([now, *others]) + RETURN_SECONDS))


def rest_claim(book: Book, rest: Rest | None, now: int) -> Effects:
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
