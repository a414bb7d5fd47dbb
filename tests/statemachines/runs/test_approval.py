"""Approvals: every edge and non-edge of G-108, one word for ever, and what ends a request unasked."""

from __future__ import annotations

import msgspec
import pytest

from statemachines.contracts.policy import Authority
from statemachines.kernel.machine import apply
from statemachines.runs import approval as a
from statemachines.runs.approval import (
    MACHINE,
    Approval,
    ApprovalAlreadyDecided,
    ApprovalNotFound,
    OwnerDecision,
    Status,
)
from tests.statemachines.tables import check_table
from tests.support.examples import example

EVENTS = (a.ApprovalRequested, a.ApprovalGiven, a.ApprovalRefused, a.ApprovalExpired, a.ApprovalCancelled)
EDGES = [
    (a.ApprovalRequested.TOPIC, Status.ABSENT, Status.PENDING),
    (a.ApprovalGiven.TOPIC, Status.PENDING, Status.APPROVED),
    (a.ApprovalRefused.TOPIC, Status.PENDING, Status.REJECTED),
    (a.ApprovalExpired.TOPIC, Status.PENDING, Status.EXPIRED),
    (a.ApprovalCancelled.TOPIC, Status.PENDING, Status.CANCELLED),
]
ON = Authority(automation_id="heal", enabled=True, generation=3)
PENDING = Approval(status=Status.PENDING, generation=3, requested_at=100, expires_at=100 + a.APPROVAL_SECONDS)
YES, NO = (
    OwnerDecision(approve=True, decided_by="usr_1"),
    OwnerDecision(approve=False, decided_by="usr_1", reason="No."),
)


def test_an_approval_moves_along_the_edges_only():
    check_table(MACHINE, EDGES, {event.TOPIC: example(event) for event in EVENTS})


@pytest.mark.parametrize(("decision", "other"), [(YES, NO), (NO, YES)])
def test_the_first_word_stands(decision, other):
    [event] = a.decide_answer(PENDING, decision, 200)
    decided = apply(MACHINE, PENDING, event)
    assert (decided.decided_by, decided.decided_at, decided.reason) == ("usr_1", 200, decision.reason)
    assert a.decide_answer(decided, decision, 300) == []
    with pytest.raises(ApprovalAlreadyDecided):
        a.decide_answer(decided, other, 300)


@pytest.mark.parametrize("ended", [a.ApprovalExpired(5), a.ApprovalCancelled("run_over", 5)])
def test_a_request_that_ended_is_decided_no_more(ended):
    for decision in (YES, NO):
        with pytest.raises(ApprovalAlreadyDecided):
            a.decide_answer(apply(MACHINE, PENDING, ended), decision, 300)


def test_nothing_is_decided_about_nothing():
    with pytest.raises(ApprovalNotFound):
        a.decide_answer(Approval(), YES, 1)


@pytest.mark.parametrize(
    ("change", "live", "now", "expected"),
    [
        ({}, True, PENDING.expires_at - 1, []),
        ({}, True, PENDING.expires_at, [a.ApprovalExpired(PENDING.expires_at)]),
        ({}, False, 200, [a.ApprovalCancelled("run_over", 200)]),
        ({"enabled": False}, True, 200, [a.ApprovalCancelled("authority_withdrawn", 200)]),
        ({"paused": True}, True, 200, [a.ApprovalCancelled("authority_withdrawn", 200)]),
        ({"generation": 4}, True, 200, [a.ApprovalCancelled("authority_withdrawn", 200)]),
    ],
)
def test_time_a_stop_or_the_end_of_the_run_ends_a_request(change, live, now, expected):
    authority = msgspec.structs.replace(ON, **change)
    assert a.settle(PENDING, authority, run_live=live, now=now) == expected
    for event in expected:
        assert a.settle(apply(MACHINE, PENDING, event), authority, run_live=live, now=now) == []
