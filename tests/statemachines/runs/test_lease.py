"""The lease of a case: every edge and non-edge, epochs that rise by one, attempts that count the current revision."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from statemachines.kernel.machine import apply, permits, replay
from statemachines.runs import lease
from statemachines.runs.lease import MACHINE, Lease, Status
from tests.statemachines.tables import check_table
from tests.support.examples import example

EVENTS = (lease.LeaseOffered, lease.LeaseTaken, lease.LeaseSpent)
EDGES = [
    *[(lease.LeaseOffered.TOPIC, status, Status.OFFERED) for status in Status],
    (lease.LeaseTaken.TOPIC, Status.OFFERED, Status.CLAIMED),
    (lease.LeaseSpent.TOPIC, Status.CLAIMED, Status.RUNNING),
]


def test_a_lane_moves_along_the_edges_only():
    check_table(MACHINE, EDGES, {event.TOPIC: example(event) for event in EVENTS})


class LeaseMachine(RuleBasedStateMachine):
    """A lease against counters kept by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.state, self.events = Lease(), []
        self.offers = self.epochs = 0
        self.runs: dict[tuple[str, int], int] = {}
        self.latest = 0
        self.clock = 5
        self.ended: int | None = None
        self.claimed: int | None = None

    def record(self, event) -> bool:
        if not permits(MACHINE, self.state, event):
            return False
        self.state = apply(MACHINE, self.state, event)
        self.events.append(event)
        return True

    @rule(automation=st.sampled_from("ab"), later=st.booleans())
    def offer(self, automation, later):
        self.latest += later or not self.latest
        self.clock += 1
        self.ended = self.clock if self.state.run_id is not None else self.ended
        ordinal = self.offers + 1
        self.offers += self.record(
            lease.LeaseOffered("case_1", self.latest, automation, f"trc_{ordinal}", ordinal, self.clock, self.ended)
        )
        assert self.state.claim_id is None

    @rule()
    def take(self):
        self.clock += 1
        if self.record(lease.LeaseTaken(f"claim_{self.epochs}", self.epochs + 1, self.clock)):
            self.epochs += 1
            self.claimed = self.clock

    @rule()
    def spend(self):
        state = self.state
        if self.record(lease.LeaseSpent("run_1", state.automation_id, state.case_revision, 7)):
            key = (state.automation_id, state.case_revision)
            self.runs[key] = self.runs.get(key, 0) + 1

    @invariant()
    def counts_hold(self):
        assert (self.state.ordinal, self.state.epoch) == (self.offers, self.epochs)
        assert (self.state.claimed_at, self.state.run_ended_at) == (self.claimed, self.ended)
        assert replay(MACHINE, self.events) == self.state
        for automation in "ab":
            if self.state.attempts_revision:
                expected = self.runs.get((automation, self.state.attempts_revision), 0)
                assert self.state.attempts_of(automation, self.state.attempts_revision) == expected
            assert self.state.attempts_of(automation, self.latest + 1) == 0


TestLease = LeaseMachine.TestCase
