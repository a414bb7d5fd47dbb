"""Grants: every edge and non-edge of G-109, spent once, and void the moment authority is."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemachines.contracts.policy import Authority
from statemachines.kernel.machine import apply, permits, replay
from statemachines.runs import grant as g
from statemachines.runs.grant import MACHINE, Grant, GrantNotAvailable, Status
from tests.statemachines.tables import check_table
from tests.support.examples import example

EVENTS = (
    g.GrantAuthorized, g.GrantConsumed, g.GrantSettled, g.GrantExpired, g.GrantRevoked, g.GrantUnresolved,
)  # fmt: skip
EDGES = [
    (g.GrantAuthorized.TOPIC, Status.ABSENT, Status.AUTHORIZED),
    (g.GrantConsumed.TOPIC, Status.AUTHORIZED, Status.CONSUMED),
    (g.GrantSettled.TOPIC, Status.CONSUMED, Status.SETTLED),
    (g.GrantSettled.TOPIC, Status.UNRESOLVED, Status.SETTLED),
    (g.GrantExpired.TOPIC, Status.AUTHORIZED, Status.EXPIRED),
    (g.GrantRevoked.TOPIC, Status.AUTHORIZED, Status.REVOKED),
    (g.GrantUnresolved.TOPIC, Status.CONSUMED, Status.UNRESOLVED),
]
ON = Authority(automation_id="heal", enabled=True, generation=3)
AUTHORIZED = Grant(status=Status.AUTHORIZED, generation=3, authorized_at=100, expires_at=100 + g.GRANT_SECONDS)
CONSUMED = apply(MACHINE, AUTHORIZED, g.GrantConsumed(4, 200))


def test_a_grant_moves_along_the_edges_only():
    check_table(MACHINE, EDGES, {event.TOPIC: example(event) for event in EVENTS})


def test_a_grant_is_spent_once_and_in_time():
    assert g.decide_consume(AUTHORIZED, ON, 4, AUTHORIZED.expires_at - 1)
    for grant, now in ((AUTHORIZED, AUTHORIZED.expires_at), (CONSUMED, 200), (Grant(), 200)):
        with pytest.raises(GrantNotAvailable):
            g.decide_consume(grant, ON, 4, now)


@pytest.mark.parametrize("change", [{"enabled": False}, {"paused": True}, {"generation": 4}])
def test_a_stop_voids_a_grant_before_anything_touched_it(change):
    stopped = msgspec.structs.replace(ON, **change)
    with pytest.raises(GrantNotAvailable):
        g.decide_consume(AUTHORIZED, stopped, 4, 150)
    assert g.settle(AUTHORIZED, stopped, run_live=True, now=150) == [g.GrantRevoked("authority_withdrawn", 150)]
    assert g.settle(CONSUMED, stopped, run_live=True, now=150) == [], "a started effect is left alone"


@pytest.mark.parametrize(
    ("stopped_at", "event"), [(999, "grant.revoked.v1"), (1000, "grant.revoked.v1"), (1001, "grant.expired.v1")]
)
def test_of_a_stop_and_time_the_first_ends_a_grant_whenever_it_is_asked(stopped_at, event):
    """The answer is the one that a sweep would have recorded in between."""
    stopped = msgspec.structs.replace(ON, enabled=False, withdrawn_at=stopped_at)
    again = msgspec.structs.replace(ON, generation=9, withdrawn_at=stopped_at)
    for authority in (stopped, again):
        [settled] = g.settle(AUTHORIZED, authority, run_live=True, now=5000)
        assert event == settled.TOPIC


def test_the_end_of_the_run_revokes_or_leaves_open_what_it_cannot_know():
    assert g.settle(AUTHORIZED, ON, run_live=False, now=150) == [g.GrantRevoked("run_over", 150)]
    [unresolved] = g.settle(CONSUMED, ON, run_live=False, now=150)
    open_end = apply(MACHINE, CONSUMED, unresolved)
    [settled] = g.decide_settle(open_end, "proof_1", 300)
    assert apply(MACHINE, open_end, settled).status is Status.SETTLED
    assert g.decide_settle(apply(MACHINE, open_end, settled), "proof_1", 400) == []
    assert g.decide_settle(AUTHORIZED, "proof_1", 300) == []


@given(st.lists(st.sampled_from(EVENTS), max_size=8), st.booleans(), st.integers(0, 2000))
def test_any_history_replays_and_settling_settles(kinds, live, now):
    state, events = MACHINE.initial, []
    for kind in kinds:
        event = example(kind)
        if permits(MACHINE, state, event):
            state = apply(MACHINE, state, event)
            events.append(event)
    assert replay(MACHINE, events) == state
    for event in g.settle(state, ON, run_live=live, now=now):
        state = apply(MACHINE, state, event)
    assert g.settle(state, ON, run_live=live, now=now) == []
