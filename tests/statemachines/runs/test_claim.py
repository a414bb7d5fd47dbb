"""Claims: every edge and non-edge of G-105, leases to the second, and who may renew or release."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from statemachines.contracts.policy import Authority, AutomationOff, PauseInForce, Policy
from statemachines.runs import claim as c
from statemachines.runs import claim as claims
from statemachines.runs import refusals as refused
from statemachines.runs.claim import LEASE_SECONDS, MACHINE, Claim, Holder, Status
from statemachines.runs.lease import Lease
from tests.statemachines.tables import History, check_table
from tests.support.examples import example

EVENTS = (
    c.ClaimCreated, c.ClaimBound, c.ClaimRenewed, c.ClaimRested, c.ClaimReleased, c.ClaimExpired, c.ClaimCompleted,
    c.ClaimRevoked,
)  # fmt: skip
EDGES = [
    (c.ClaimCreated.TOPIC, Status.ABSENT, Status.ACTIVE),
    (c.ClaimBound.TOPIC, Status.ACTIVE, Status.ACTIVE),
    (c.ClaimRenewed.TOPIC, Status.ACTIVE, Status.ACTIVE),
    (c.ClaimRested.TOPIC, Status.ACTIVE, Status.ACTIVE),
    (c.ClaimReleased.TOPIC, Status.ACTIVE, Status.RELEASED),
    (c.ClaimExpired.TOPIC, Status.ACTIVE, Status.EXPIRED),
    (c.ClaimCompleted.TOPIC, Status.ACTIVE, Status.COMPLETED),
    (c.ClaimRevoked.TOPIC, Status.ACTIVE, Status.REVOKED),
]
ON = Authority(automation_id="heal", enabled=True, generation=1, policy_sha256="p", policy=Policy())
HOLDER, RIVAL, SIBLING = Holder("heal", "runner_1"), Holder("other", "runner_2"), Holder("heal", "runner_3")
HELD = Lease(receipt_id="trc_1", epoch=4)
CREATED = c.ClaimCreated(
    case_id="case_1", case_revision=2, automation_id="heal", runner_id="runner_1", receipt_id="trc_1", lease_epoch=4,
    claimed_at=1000, lease_expires_at=1000 + LEASE_SECONDS,
)  # fmt: skip
ACTIVE = MACHINE.evolve(Claim(), CREATED)
END = CREATED.lease_expires_at


def test_a_claim_moves_along_the_edges_only():
    check_table(MACHINE, EDGES, {event.TOPIC: example(event) for event in EVENTS})


def renew(
    claim: Claim = ACTIVE, lease: Lease = HELD, on: Authority = ON, who: Holder = HOLDER, epoch: int = 4, now=1500
):
    return c.decide_renew(claim, lease, on, who, epoch, now)


def release(claim: Claim = ACTIVE, lease: Lease = HELD, who: Holder | None = HOLDER, epoch: int | None = 4, now=1500):
    return claims.decide_release(claim, lease, who, epoch, "done", now)


def test_a_lease_ends_with_its_second():
    assert renew(now=END - 1) == [c.ClaimRenewed(END - 1, END - 1 + LEASE_SECONDS)]
    with pytest.raises(c.LeaseOver):
        renew(now=END)
    assert claims.settle(ACTIVE, HELD, END - 1) == []
    assert claims.settle(ACTIVE, HELD, END) == [c.ClaimExpired(END)]


def test_a_renewal_goes_no_further_than_the_deadline_of_the_run():
    bound = MACHINE.evolve(ACTIVE, c.ClaimBound("run_1", 1600))
    assert renew(bound) == [], "it never gets shorter"
    late = MACHINE.evolve(ACTIVE, c.ClaimBound("run_1", 2000))
    assert renew(late) == [c.ClaimRenewed(1500, 2000)]
    with pytest.raises(refused.DeadlineExceeded):
        renew(bound, now=1600)


def test_a_renewal_in_the_same_second_records_nothing():
    [renewed] = renew()
    assert renew(MACHINE.evolve(ACTIVE, renewed)) == []


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"claim": Claim()}, c.ClaimNotFound),
        ({"who": RIVAL}, c.ClaimRequired),
        ({"epoch": 3}, c.StaleLeaseEpoch),
        ({"epoch": 5}, c.StaleLeaseEpoch),
        ({"lease": Lease(receipt_id="trc_2", epoch=4)}, c.LeaseOver),
        ({"lease": Lease(receipt_id="trc_1", epoch=5)}, c.LeaseOver),
        ({"claim": MACHINE.evolve(ACTIVE, c.ClaimExpired(END))}, c.LeaseOver),
        ({"claim": MACHINE.evolve(ACTIVE, c.ClaimReleased(None, 1200))}, c.ClaimNotActive),
        ({"claim": MACHINE.evolve(ACTIVE, c.ClaimCompleted(1200))}, c.ClaimNotActive),
        ({"claim": MACHINE.evolve(ACTIVE, c.ClaimRevoked(1200))}, c.ClaimNotActive),
    ],
)
def test_neither_renewed_nor_released_by_another_or_too_late(change: dict[str, Any], refusal: type[Exception]):
    """A stale worker is refused whatever its claim's own stream says: the lease has moved on (P5)."""
    with pytest.raises(refusal):
        renew(**change)
    with pytest.raises(refusal):
        release(**change)


@pytest.mark.parametrize(
    ("change", "refusal"),
    [({"enabled": False}, AutomationOff), ({"paused": True}, PauseInForce)],
)
def test_a_stop_ends_renewals_but_not_releases(change, refusal):
    with pytest.raises(refusal):
        renew(on=msgspec.structs.replace(ON, **change))
    assert release() == [c.ClaimReleased("done", 1500)]


def test_an_owner_releases_without_an_epoch():
    assert release(who=None, epoch=None) == [c.ClaimReleased("done", 1500)]


def test_a_lease_that_time_ended_first_is_recorded_as_that():
    assert claims.decide_complete(ACTIVE, HELD, END) == claims.decide_revoke(ACTIVE, HELD, END) == [c.ClaimExpired(END)]
    assert claims.decide_complete(ACTIVE, HELD, 1500) == [c.ClaimCompleted(1500)]
    assert claims.decide_revoke(ACTIVE, HELD, 1500) == [c.ClaimRevoked(1500)]
    assert claims.decide_complete(MACHINE.evolve(ACTIVE, c.ClaimExpired(END)), HELD, 1500) == []


class Lifetime(RuleBasedStateMachine):
    """A claim under a clock that jumps, against what a person would say about it."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History(MACHINE)
        self.history.carry_out(lambda state: [] if state.status is not Status.ABSENT else [CREATED])
        self.now, self.until, self.live = 1000, END, True

    @property
    def in_time(self) -> bool:
        return self.live and self.now < self.until

    @rule(seconds=st.sampled_from([0, 1, 450, 899, 900]))
    def wait(self, seconds):
        self.now += seconds

    @rule(who=st.sampled_from([HOLDER, SIBLING, RIVAL]))
    def renew(self, who):
        def decide(state):
            return c.decide_renew(state, HELD, ON, who, 4, self.now)

        if who is RIVAL:
            self.history.refuses(decide, c.ClaimRequired)
        elif self.in_time:
            self.history.carry_out(decide)
            self.until = self.now + LEASE_SECONDS
        else:
            self.history.refuses(decide, (c.LeaseOver, c.ClaimNotActive))

    @rule()
    def release(self):
        def decide(state):
            return claims.decide_release(state, HELD, HOLDER, 4, None, self.now)

        if self.in_time:
            for event in decide(self.history.state):
                self.history.state = MACHINE.evolve(self.history.state, event)
                self.history.events.append(event)
            self.live = False
        else:
            self.history.refuses(decide, (c.LeaseOver, c.ClaimNotActive))

    @rule()
    def sweep(self):
        events = self.history.carry_out(lambda state: claims.settle(state, HELD, self.now))
        assert bool(events) == (self.live and self.now >= self.until)
        self.live = self.in_time

    @invariant()
    def replays(self):
        self.history.check()
        assert c.lease_live(self.history.state, HELD, self.now) == self.in_time


TestLifetime = Lifetime.TestCase
