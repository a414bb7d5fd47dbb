"""What is left to do in a run, for the 409s that its state decides (G-139, G-178).

The table says what a phase allows. Which of that has a ground now is data: grants, proofs, a person's word, the time
that a runner still has.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import get_args

from statemachines.kernel.machine import Rejection, allowed_next
from statemachines.runs import events as e
from statemachines.runs import grant as grants
from statemachines.runs import run as runs
from statemachines.runs.approval import ActionNotApproved, ApprovalPending
from statemachines.runs.grant import GrantAlreadyAuthorized, GrantNotAvailable
from statemachines.runs.run import RunTerminal, RunTransitionNotAllowed
from statemachines.runs.steps.book import Book, refused, runner_may_act
from statemachines.runs.steps.end_run import as_of

DECIDED_BY_RUN: tuple[type[Rejection], ...] = (
    RunTransitionNotAllowed,
    RunTerminal,
    ApprovalPending,
    ActionNotApproved,
    GrantNotAvailable,
    GrantAlreadyAuthorized,
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
