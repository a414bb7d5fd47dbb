"""A review rests lease and deadline of its run until the runner is back, within bounds that it shows (G-185)."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.statemachines.runs.test_approving import ask, decide, scene
from tests.support import few_or_many
from tests.support.loop.scene import Scene

DAY, LEASE, RUNTIME = 86400, 900, 3600
SECOND_DAY = 2 * DAY


def renew(at: Scene):
    return at.send("renew", {"lease_epoch": 1}, claim_id=at.claim_id)


def sweep(at: Scene) -> None:
    at.must("sweep", who="sweep")


def moments(at: Scene) -> tuple[bool, int, int]:
    """Whether the run rests, and when its lease and its deadline end, counted from its start."""
    run = at.run()
    return run["resting"], run["lease_expires_at"] - run["started_at"], run["deadline_at"] - run["started_at"]


def test_a_review_shows_the_latest_moments_and_a_decision_brings_them_nearer():
    at = scene().running()
    assert moments(at) == (False, LEASE, RUNTIME)
    at.wait(100)
    approval_id = ask(at).body["approval_id"]
    assert moments(at) == (True, 100 + SECOND_DAY + 800, 100 + SECOND_DAY + RUNTIME - 100)
    at.wait(40000)
    assert at.standing() == ("human_review", None)
    assert decide(at, approval_id, "approve").ok
    assert moments(at) == (True, 40100 + DAY + 800, 40100 + DAY + RUNTIME - 100)
    at.wait(DAY - 1)
    assert at.act("patch", {"phase": "running"}).ok
    assert moments(at) == (False, 40100 + DAY - 1 + 800, 40100 + DAY - 1 + RUNTIME - 100)
    at.wait(800)
    assert at.standing() == ("stopped", "failed")


def test_the_clocks_run_on_when_the_runner_does_not_come_back():
    at = scene().running()
    assert decide(at, ask(at).body["approval_id"], "approve").ok
    at.wait(DAY)
    assert moments(at) == (False, DAY + LEASE, DAY + RUNTIME)
    at.wait(LEASE - 1)
    assert at.standing() == ("running", None)
    at.wait(1)
    assert at.standing() == ("stopped", "failed")


def test_a_lapsed_request_leaves_a_day_to_come_back():
    at = scene().running()
    ask(at)
    at.wait(DAY + 5)
    assert (at.standing(), moments(at)) == (("running", None), (True, SECOND_DAY + LEASE, SECOND_DAY + RUNTIME))
    assert at.act("patch", {"status": "escalated", "reason": "Nobody decided."}).ok


def test_at_least_five_minutes_of_the_lease_are_left():
    at = scene().running()
    at.wait(LEASE - 1)
    assert decide(at, ask(at).body["approval_id"], "approve").ok
    at.wait(3600)
    assert renew(at).ok
    start = LEASE - 1 + 3600
    assert moments(at) == (False, start + LEASE, start + RUNTIME - (LEASE - 1))


def test_renewals_and_charges_are_taken_and_end_no_rest_while_a_person_decides():
    at = scene().running()
    approval_id = ask(at).body["approval_id"]
    before = moments(at)
    at.wait(5000)
    assert renew(at).body["lease_expires_at"] == at.run()["lease_expires_at"]
    assert at.act("usage", {"turns": 1, "cost_usd": 0, "runtime_seconds": 1}).ok
    assert at.authorize().code == "approval_pending"
    assert moments(at) == before
    assert decide(at, approval_id, "approve").ok
    revision = at.run()["state_revision"]
    assert renew(at).ok
    assert moments(at) == (False, 5000 + LEASE, 5000 + RUNTIME)
    assert at.run()["state_revision"] == revision, "the token of the next command is as it was"
    assert at.consume(at.grant()).ok


def test_all_rests_of_a_run_take_two_days_at_most():
    at = scene().running()
    assert decide(at, ask(at, "escalate").body["approval_id"], "approve").ok
    at.wait(DAY - 10)
    assert renew(at).ok
    approval_id = ask(at).body["approval_id"]
    resting, _, deadline = moments(at)
    assert (resting, deadline) == (True, SECOND_DAY + RUNTIME)
    at.wait(DAY + 9)
    assert decide(at, approval_id, "approve").code == "approval_already_decided", "nobody decided in a day"
    assert moments(at)[0] is True
    at.wait(1)
    assert moments(at)[0] is False
    assert moments(at)[2] == SECOND_DAY + RUNTIME


def test_a_second_request_prolongs_the_rest_of_the_first():
    at = scene().running()
    first = ask(at).body["approval_id"]
    at.wait(1000)
    second = ask(at, "escalate").body["approval_id"]
    assert moments(at) == (True, SECOND_DAY + LEASE, SECOND_DAY + RUNTIME), "two days at most"
    at.wait(1000)
    assert decide(at, second, "approve").ok
    assert moments(at) == (True, SECOND_DAY + LEASE, SECOND_DAY + RUNTIME), "the first is pending"
    assert decide(at, first, "approve").ok
    assert moments(at) == (True, 2000 + DAY + LEASE, 2000 + DAY + RUNTIME)


@pytest.mark.parametrize("decided", [False, True])
def test_a_stop_ends_the_rest_when_it_comes(decided):
    """As of that moment, whenever somebody looks, and a runner goes on with what was left (G-114)."""
    at = scene().running()
    at.wait(100)
    approval_id = ask(at).body["approval_id"]
    if decided:
        assert decide(at, approval_id, "approve").ok
    at.wait(3000)
    at.pause()
    at.wait(500)
    assert moments(at) == (False, 3100 + 800, 3100 + RUNTIME - 100)
    at.enable()
    assert renew(at).ok
    assert moments(at) == (False, 3600 + LEASE, 3100 + RUNTIME - 100)


def test_a_stopped_rest_is_over_with_the_lease_that_was_left():
    at = scene().running()
    ask(at)
    at.wait(3000)
    at.pause()
    at.wait(LEASE - 1)
    assert at.standing() == ("running", None)
    at.wait(1)
    assert at.standing() == ("stopped", "failed")
    assert at.run()["finished_at"] == at.now
    at.enable()
    assert renew(at).code == "lease_expired"
    sweep(at)
    assert at.standing() == ("stopped", "failed")


@pytest.mark.parametrize("swept", [False, True])
def test_a_decision_on_a_run_that_is_over_says_so(swept):
    at = scene().running()
    approval_id = ask(at).body["approval_id"]
    at.must("cancel", who="canceller", key="c", run_id=at.run_id)
    if swept:
        sweep(at)
    for word in ("approve", "reject"):
        assert decide(at, approval_id, word).code == "approval_cancelled"


def test_a_decision_stays_what_it_was_when_the_run_is_over():
    at = scene().running()
    approval_id = ask(at).body["approval_id"]
    assert decide(at, approval_id, "approve").ok
    at.must("cancel", who="canceller", key="c", run_id=at.run_id)
    assert decide(at, approval_id, "approve").ok
    assert decide(at, approval_id, "reject").code == "approval_already_decided"


class Resting(RuleBasedStateMachine):
    """The clocks of a run by hand, beside those of the service, whether a sweep came or not."""

    @initialize(swept=st.booleans())
    def start(self, swept: bool) -> None:
        self.at, self.swept = scene().running(), swept
        self.deadline, self.lease, self.rested = self.at.now + RUNTIME, self.at.now + LEASE, 0
        self.began: int | None = None
        self.left = (0, 0)
        self.decided = 0
        self.pending: dict[str, int] = {}  # expiry by request
        self.asked: set[str] = set()

    @property
    def until(self) -> int:
        """The latest end of the rest."""
        assert self.began is not None
        last = max([self.decided, *self.pending.values()])
        return min(last + DAY, self.began + SECOND_DAY - self.rested)

    @property
    def waits(self) -> bool:
        return any(self.at.now < expiry for expiry in self.pending.values())

    def clocks(self) -> tuple[int, int]:
        if self.began is None:
            return self.lease, self.deadline
        deadline = self.until + self.left[1]
        return min(self.until + self.left[0], deadline), deadline

    @property
    def live(self) -> bool:
        return self.at.now < min(self.clocks())

    def came(self) -> None:
        """The runner is back, if nobody has to decide."""
        if self.began is None or self.waits:
            return
        end = min(self.at.now, self.until)
        self.deadline = end + self.left[1]
        self.lease = min(end + self.left[0], self.deadline)
        self.rested += end - self.began
        self.began, self.pending = None, {}

    @rule(seconds=st.one_of(st.integers(1, 2000), st.integers(1, 2 * DAY)))
    def wait(self, seconds: int) -> None:
        self.at.wait(seconds)
        if self.swept:
            sweep(self.at)

    @precondition(lambda self: self.live)
    @rule()
    def renew(self) -> None:
        self.came()
        assert renew(self.at).ok
        if self.began is None:
            self.lease = max(self.lease, min(self.at.now + LEASE, self.deadline))

    @precondition(lambda self: self.live and not self.waits)
    @rule()
    def go_on(self) -> None:
        self.came()
        assert self.at.act("patch", {"phase": "running"}).ok

    @precondition(lambda self: self.live)
    @rule(action=st.sampled_from(["draft_pr", "escalate"]))
    def ask(self, action: str) -> None:
        if action in self.asked:
            return
        self.asked.add(action)
        self.came()
        approval_id = ask(self.at, action).body["approval_id"]
        now = self.at.now
        if self.began is None:
            if self.rested >= SECOND_DAY:
                return
            self.left = (max(300, self.lease - now), self.deadline - now)
            self.began, self.decided = now, 0
        self.pending[approval_id] = now + DAY

    @precondition(lambda self: self.live and self.waits)
    @rule(word=st.sampled_from(["approve", "reject"]))
    def decide(self, word: str) -> None:
        approval_id = next(one for one, expiry in self.pending.items() if self.at.now < expiry)
        assert decide(self.at, approval_id, word).ok
        del self.pending[approval_id]
        self.decided = self.at.now

    @invariant()
    def the_record_shows_the_clocks(self) -> None:
        run = self.at.run()
        if not self.live:
            assert (run["phase"], run["resting"]) == ("stopped", False)
            return
        assert (run["lease_expires_at"], run["deadline_at"]) == self.clocks()
        assert run["resting"] is (self.began is not None and self.at.now < self.until)
        assert run["phase"] == "human_review" if self.waits else run["phase"] in ("running", "run_started")


TestResting = few_or_many(15, 60, stateful_step_count=25, deadline=None)(Resting)
