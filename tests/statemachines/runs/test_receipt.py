"""Trigger receipts: every edge and non-edge of G-104, and what time and the world make of them."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemachines.contracts.policy import Authority, Policy
from statemachines.kernel.machine import apply, replay
from statemachines.runs import receipt as r
from statemachines.runs.receipt import MACHINE, ReceiptState, Status
from tests.statemachines.tables import check_table
from tests.support.examples import example

EDGES = [
    (r.ReceiptIssued.TOPIC, Status.ABSENT, Status.ISSUED),
    (r.ReceiptClaimed.TOPIC, Status.ISSUED, Status.CLAIMED),
    (r.ReceiptConsumed.TOPIC, Status.CLAIMED, Status.CONSUMED),
    (r.ReceiptConsumed.TOPIC, Status.ISSUED, Status.CONSUMED),
    (r.ReceiptExpired.TOPIC, Status.ISSUED, Status.EXPIRED),
    (r.ReceiptClosed.TOPIC, Status.CLAIMED, Status.CLOSED),
    (r.ReceiptInvalidated.TOPIC, Status.ISSUED, Status.INVALIDATED),
    (r.ReceiptInvalidated.TOPIC, Status.CLAIMED, Status.INVALIDATED),
]
EVENTS = (
    r.ReceiptIssued, r.ReceiptClaimed, r.ReceiptConsumed, r.ReceiptExpired, r.ReceiptClosed, r.ReceiptInvalidated,
)  # fmt: skip

ON = Authority(
    automation_id="heal", enabled=True, generation=3, contract_revision=3, policy_sha256="p", policy=Policy()
)
CASE = r.CaseSnapshot(
    case_id="case_1", case_revision=2, fingerprint="f", level="error", status="open", trust="customer_provider",
    event_count=9, first_seen_at=1, last_seen_at=90,
)  # fmt: skip
ISSUED = ReceiptState(
    status=Status.ISSUED,
    automation_id="heal",
    policy_sha256="p",
    generation=3,
    case=CASE,
    issued_at=100,
    expires_at=200,
)


def test_a_receipt_moves_along_the_edges_only():
    check_table(MACHINE, EDGES, {event.TOPIC: example(event) for event in EVENTS})


def settle(
    receipt: ReceiptState = ISSUED, authority: Authority = ON, case=("open", 2), *, live: bool = False, now: int = 150
):
    return r.settle(receipt, authority, case, claim_live=live, now=now)


CLAIMED = MACHINE.evolve(ISSUED, r.ReceiptClaimed("claim_1", 120))


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        (settle(), []),
        (settle(now=199), []),
        (settle(now=200), [r.ReceiptExpired(200)]),
        (settle(CLAIMED, live=True, now=10_000), []),
        (settle(CLAIMED, live=False), [r.ReceiptClosed("claim_ended", 150)]),
        (settle(case=("resolved", 3)), [r.ReceiptInvalidated("case_left_open", None, 150)]),
        (settle(case=("open", 3)), [r.ReceiptInvalidated("case_revision_moved", None, 150)]),
        (settle(CLAIMED, live=True, case=("open", 3)), [r.ReceiptInvalidated("case_revision_moved", None, 150)]),
    ],
)
def test_time_and_the_case_end_a_receipt(events, expected):
    assert events == expected


@pytest.mark.parametrize("change", [{"enabled": False}, {"paused": True}, {"generation": 4}])
def test_a_stop_or_another_policy_ends_a_receipt_at_once(change):
    stopped = msgspec.structs.replace(ON, **change)
    assert settle(authority=stopped) == [r.ReceiptInvalidated("authority_withdrawn", None, 150)]
    assert settle(CLAIMED, stopped, live=True) == [r.ReceiptInvalidated("authority_withdrawn", None, 150)]


@given(st.lists(st.sampled_from(EVENTS), max_size=8), st.integers(0, 400))
def test_any_history_replays_and_settling_settles(kinds, now):
    """Whatever may be recorded replays to the same state; what settle says can be recorded, and then it is silent."""
    state, events = MACHINE.initial, []
    for kind in kinds:
        event = example(kind)
        if MACHINE.table.get_transitions(event.TOPIC, state.status):
            state = apply(MACHINE, state, event)
            events.append(event)
    assert replay(MACHINE, events) == state
    for event in r.settle(state, ON, ("open", 7), claim_live=False, now=now):
        state = apply(MACHINE, state, event)
    assert r.settle(state, ON, ("open", 7), claim_live=False, now=now) == []


def test_rivals_name_one_receipt():
    assert r.case_receipt_id("p", "a", "c", 1, 1) == r.case_receipt_id("p", "a", "c", 1, 1)
    ids = {r.case_receipt_id("p", a, c, n, o) for a in "ab" for c in "cd" for n in (1, 2) for o in (1, 2)}
    assert len(ids) == 16
    assert r.schedule_receipt_id("p", "a", 60) not in ids


def test_the_end_of_a_project_and_lost_materiality_end_open_receipts_only():
    [fenced] = r.decide_fence(ISSUED, 9)
    assert apply(MACHINE, ISSUED, fenced).cause == "project_fenced"
    done = apply(MACHINE, CLAIMED, r.ReceiptConsumed("run_1", None, 5))
    assert done.over
    assert r.decide_fence(done, 9) == []
    decision = example(r.ReceiptInvalidated).materiality
    assert decision is not None
    assert r.decide_invalidate(done, decision, 9) == []
    [ended] = r.decide_invalidate(CLAIMED, decision, 9)
    assert apply(MACHINE, CLAIMED, ended).final_materiality == decision
