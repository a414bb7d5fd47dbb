"""The run's table against G-106 row by row: every edge, every non-edge, one destination a topic, replay."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemachines.kernel.machine import apply, permits, replay
from statemachines.kernel.topics import EVENTS
from statemachines.runs import events as e
from statemachines.runs.run import BEFORE_EFFECT, ENDED, LIVE, MACHINE, OUTSIDE, Run, Status
from tests.statemachines.tables import check_table
from tests.support.examples import example

EVENTS = [event for topic, event in sorted(EVENTS.items()) if topic.startswith("run.")]

ABSENT, STARTED, RUNNING, REVIEW = Status.ABSENT, Status.STARTED, Status.RUNNING, Status.IN_REVIEW
PENDING, OPENED, VERIFYING = Status.PROOF_PENDING, Status.PR_OPENED, Status.VERIFYING

# What G-106 allows, as (event, from, to); what keeps its status is listed with it.
ROWS = [
    (e.RunStarted, [ABSENT], STARTED),
    (e.RunProgressed, [STARTED], RUNNING),
    (e.RunCharged, [STARTED, RUNNING], RUNNING),
    (e.RunChargedInReview, [REVIEW], REVIEW),
    (e.RunChargedAwaitingProof, [PENDING], PENDING),
    (e.RunChargedAwaitingDeploy, [OPENED], OPENED),
    (e.RunApprovalRequested, [STARTED, RUNNING, REVIEW], REVIEW),
    (e.RunApprovalSettled, [REVIEW], REVIEW),
    (e.RunReviewEnded, [REVIEW], RUNNING),
    (e.RunReviewLapsed, [REVIEW], RUNNING),
    (e.RunResumed, [RUNNING], RUNNING),
    (e.RunDraftPrAuthorized, [STARTED, RUNNING], RUNNING),
    (e.RunDraftPrConsumed, [RUNNING], PENDING),
    (e.RunPrReported, [PENDING], OPENED),
    (e.RunPrProven, [PENDING, OPENED], OPENED),
    (e.RunChecksProven, [OPENED], OPENED),
    (e.RunAutoMergeAuthorized, [OPENED], OPENED),
    (e.RunAutoMergeConsumed, [OPENED], OPENED),
    (e.RunAutoMergeProven, [OPENED], OPENED),
    (e.RunMergeProven, [OPENED], OPENED),
    (e.RunMergeProvenLater, [VERIFYING], VERIFYING),
    (e.RunDeployBound, [OPENED], VERIFYING),
    (e.RunVerified, [VERIFYING], Status.SUCCEEDED),
    (e.RunVerificationFailed, [VERIFYING], Status.FAILED),
    (e.RunReportSourceIntended, [STARTED, RUNNING], RUNNING),
    (e.RunReported, [RUNNING], Status.SUCCEEDED),
    (e.RunFailed, [STARTED, RUNNING, REVIEW], Status.FAILED),
    (e.RunFailedOutside, [PENDING, OPENED], Status.FAILED_OUTSIDE),
    (e.RunEscalated, [STARTED, RUNNING, REVIEW], Status.ESCALATED),
    (e.RunEscalatedOutside, [PENDING, OPENED], Status.ESCALATED_OUTSIDE),
    (e.RunCancelled, [STARTED, RUNNING, REVIEW], Status.CANCELLED),
    (e.RunCancelledOutside, [PENDING, OPENED, VERIFYING], Status.CANCELLED_OUTSIDE),
    (e.RunFenced, [STARTED, RUNNING, REVIEW, PENDING, OPENED, VERIFYING], Status.FENCED),
    (e.RunProvenAfterFailure, [Status.FAILED_OUTSIDE], Status.FAILED_OUTSIDE),
    (e.RunProvenAfterEscalation, [Status.ESCALATED_OUTSIDE], Status.ESCALATED_OUTSIDE),
    (e.RunProvenAfterCancel, [Status.CANCELLED_OUTSIDE], Status.CANCELLED_OUTSIDE),
    (e.RunSettledAfterFailure, [Status.FAILED_OUTSIDE], Status.FAILED),
    (e.RunSettledAfterEscalation, [Status.ESCALATED_OUTSIDE], Status.ESCALATED),
    (e.RunSettledAfterCancel, [Status.CANCELLED_OUTSIDE], Status.CANCELLED),
    (e.RunClosedUnmerged, [PENDING, OPENED], Status.FAILED),
    (e.RunClosedDeployed, [VERIFYING], Status.FAILED_OUTSIDE),
    (e.RunMergedChanged, [PENDING, OPENED], Status.ESCALATED),
    (e.RunMergedChangedDeployed, [VERIFYING], Status.ESCALATED_OUTSIDE),
    (e.RunClosedAfterFailure, [Status.FAILED_OUTSIDE], Status.FAILED),
    (e.RunClosedAfterEscalation, [Status.ESCALATED_OUTSIDE], Status.ESCALATED),
    (e.RunClosedAfterCancel, [Status.CANCELLED_OUTSIDE], Status.CANCELLED),
    *((e.RunSeenAfterEnd, [status], status) for status in ENDED),
]
BOOKKEEPING = (e.RunReviewLapsed, e.RunResumed)
PAIRS = {
    ABSENT: ("absent", None),
    STARTED: ("run_started", None),
    RUNNING: ("running", None),
    REVIEW: ("human_review", None),
    PENDING: ("provider_proof_pending", None),
    OPENED: ("provider_proof_pending", "draft_pr_opened"),
    VERIFYING: ("provider_proof_pending", "verifying"),
    Status.SUCCEEDED: ("verified_or_reported", "succeeded"),
    Status.FAILED: ("stopped", "failed"),
    Status.ESCALATED: ("stopped", "escalated"),
    Status.CANCELLED: ("stopped", "cancelled"),
    Status.FAILED_OUTSIDE: ("external_follow_up_required", "failed"),
    Status.ESCALATED_OUTSIDE: ("external_follow_up_required", "escalated"),
    Status.CANCELLED_OUTSIDE: ("external_follow_up_required", "cancelled"),
    Status.FENCED: ("deletion_fenced", "cancelled"),
}


def test_a_run_moves_along_the_edges_only():
    edges = [(event.TOPIC, source, target) for event, sources, target in ROWS for source in sources]
    check_table(MACHINE, edges, {event.TOPIC: example(event) for event in EVENTS})


def test_a_status_is_the_pair_that_clients_see():
    assert {status: (status.phase, status.outcome) for status in Status} == PAIRS


def test_what_is_terminal_never_changes_its_outcome():
    """From a status with a terminal outcome only late proof leads on, and the outcome stays (R-AUT-33)."""
    for event, sources, target in ROWS:
        for source in sources:
            if source not in LIVE and source is not ABSENT:
                assert source in OUTSIDE or event is e.RunSeenAfterEnd
                assert issubclass(event, e.LateProof | e.LateSight)
                assert target.outcome == source.outcome


def test_every_event_but_bookkeeping_raises_the_state_revision():
    for event in EVENTS:
        raised = MACHINE.evolve(Run(state_revision=7), example(event)).state_revision - 7
        assert raised == (0 if event in BOOKKEEPING else 1)


@given(st.lists(st.sampled_from(EVENTS), max_size=25))
def test_any_history_replays_and_counts_its_commands(kinds):
    state, events = Run(), []
    for kind in [e.RunStarted, *kinds]:
        event = example(kind)
        if permits(MACHINE, state, event):
            state = apply(MACHINE, state, event)
            events.append(event)
    assert replay(MACHINE, events) == state
    assert state.state_revision == sum(not isinstance(event, BOOKKEEPING) for event in events)
    assert state.live == (state.status in LIVE)


@pytest.mark.parametrize("status", BEFORE_EFFECT)
def test_no_provider_effect_can_have_begun_before_a_consume(status):
    """Statuses before an effect cannot be reached from any after it."""
    targets = {target for _, sources, target in ROWS for source in sources if source not in (*BEFORE_EFFECT, ABSENT)}
    assert status not in targets


def test_the_proven_commit_is_the_merge_or_for_review_the_head():
    proof = example(e.RunPrProven).proof
    opened = msgspec.structs.replace(proof, observation="pr_opened", head_sha="a", merge_commit_sha=None)
    merged = msgspec.structs.replace(proof, observation="merged", head_sha="a", merge_commit_sha="b")
    assert Run(proofs=[opened]).proven_commit == "a"
    assert Run(proofs=[opened, merged]).proven_commit == "b"
    auto = e.Terms(delivery=e.Delivery("auto_merge", "squash", ["build"]))
    assert Run(proofs=[opened], terms=auto).proven_commit is None
    assert Run(proofs=[opened, merged], terms=auto).proven_commit == "b"
