"""The signal map machine: recorded by an approval, verified by a receipt, withdrawn by a new start (G-060)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.onboarding import SignalMapRow, fold_signal_map
from statemachines.kernel.machine import Event, Recorded, apply, permits, replay
from statemachines.onboarding.plan import Receipt, hash_plan
from statemachines.onboarding.signal_map import (
    MACHINE,
    SignalMap,
    SignalMapConflict,
    SignalMapRecorded,
    SignalMapVerified,
    SignalMapWithdrawn,
    Status,
    decide_record,
    decide_verify,
    decide_withdraw,
    stream,
)
from tests.schemas.test_onboarding import RECEIPT
from tests.statemachines.tables import check_released
from tests.support.plans import history_body, make_plan

PLANS = [(plan, hash_plan(plan)) for plan in (make_plan("one"), make_plan("two"))]
PROOF = msgspec.convert(RECEIPT, Receipt)
EVENTS: list[Event] = [
    SignalMapRecorded(*PLANS[0], 1),
    SignalMapVerified(PROOF),
    SignalMapWithdrawn(2),
]
EDGES = {
    Status.ABSENT: {SignalMapRecorded: Status.RECORDED},
    Status.RECORDED: {
        SignalMapRecorded: Status.RECORDED,
        SignalMapVerified: Status.VERIFIED,
        SignalMapWithdrawn: Status.WITHDRAWN,
    },
    Status.WITHDRAWN: {SignalMapRecorded: Status.RECORDED},
    Status.VERIFIED: {},
}


@pytest.mark.parametrize("status", list(Status))
@pytest.mark.parametrize("event", EVENTS, ids=lambda e: e.TOPIC)
def test_every_event_in_every_status(status: Status, event: Event) -> None:
    """Each edge of the table is taken, everything else refused with the state as it was."""
    state = SignalMap(status, PLANS[0][1])
    leads_to = EDGES[status].get(type(event))
    assert permits(MACHINE, state, event) == (leads_to is not None)
    if leads_to is None:
        with pytest.raises(SignalMapConflict):
            apply(MACHINE, state, event)
    else:
        assert apply(MACHINE, state, event).status is leads_to


def test_released_events_keep_their_shape() -> None:
    """What was once written decodes to the same event, and is written the same way today."""
    plan = make_plan(historical_evidence=history_body())
    at = 1_700_000_000
    recorded = SignalMapRecorded(plan, hash_plan(plan), at + 1)
    check_released(MACHINE, [recorded, SignalMapVerified(PROOF), SignalMapWithdrawn(at + 3)])


def test_wishes_that_are_true_record_nothing() -> None:
    """Recording the same plan, verifying twice and withdrawing what is not there leave no event."""
    plan, plan_sha256 = PLANS[0]
    recorded = SignalMap(Status.RECORDED, plan_sha256)
    assert decide_record(recorded, plan, plan_sha256, 5) == []
    assert decide_record(recorded, *PLANS[1], 5) == [SignalMapRecorded(*PLANS[1], 5)]
    assert decide_verify(SignalMap(Status.VERIFIED), PROOF, "local") == []
    assert decide_withdraw(SignalMap(), 5) == []
    assert decide_withdraw(SignalMap(Status.WITHDRAWN), 5) == []


@given(st.lists(st.sampled_from(["one", "two", "verify", "withdraw"]), max_size=12))
def test_history_gives_state_and_row(wishes: list[str]) -> None:
    """Whatever is wished in whatever order: replay gives the state, and a row is there while a map is."""
    state, history = MACHINE.initial, []
    row: SignalMapRow | None = None
    for now, wish in enumerate(wishes):
        match wish:
            case "one" | "two":
                events = decide_record(state, *PLANS[wish == "two"], now)
            case "verify":
                events = decide_verify(state, PROOF, "local")
            case _:
                events = decide_withdraw(state, now)
        if events and not permits(MACHINE, state, events[0]):
            continue
        for event in events:
            state = apply(MACHINE, state, event)
            history.append(event)
            row = fold_signal_map(row, Recorded("map_1", len(history), event, "proj_1", now, "key:key_1"))
    assert replay(MACHINE, history) == state
    assert (row is not None) == (state.status in {Status.RECORDED, Status.VERIFIED})
    if row is not None:
        assert (row.plan_sha256, row.revision, row.id) == (state.plan_sha256, len(history), "map_1")
        assert (row.receipt is not None) == (state.status is Status.VERIFIED)


def test_one_stream_a_project() -> None:
    """A project has one map, named by the project alone."""
    assert stream("proj_1") == stream("proj_1") != stream("proj_2")
