"""The device flow: every edge in time, every non-edge, and one redemption (G-020)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from statemachines.accounts import sign_in
from statemachines.accounts.sign_in import LIFETIME, PACE_TOLERANCE, Pace, Status, next_pace
from tests.statemachines.tables import History, check_released, check_table

HASH = "0123456789abcdef" * 4
S = Status


def test_a_sign_in_moves_along_the_edges_only():
    started, authorized, denied, redeemed = (
        sign_in.SignInStarted.TOPIC,
        sign_in.SignInAuthorized.TOPIC,
        sign_in.SignInDenied.TOPIC,
        sign_in.SignInRedeemed.TOPIC,
    )
    check_table(
        sign_in.MACHINE,
        [
            *((started, status, S.PENDING) for status in S),
            (authorized, S.PENDING, S.AUTHORIZED),
            (denied, S.PENDING, S.DENIED),
            (denied, S.AUTHORIZED, S.DENIED),
            (redeemed, S.AUTHORIZED, S.REDEEMED),
        ],
        {
            started: sign_in.SignInStarted("0" * 64, "laptop", 5, 905),
            authorized: sign_in.SignInAuthorized("usr_1", True, 6),
            denied: sign_in.SignInDenied(7),
            redeemed: sign_in.SignInRedeemed("key_1", 8),
        },
    )


def test_released_events_keep_their_shape():
    check_released(
        sign_in.MACHINE,
        [
            sign_in.SignInStarted(HASH, "laptop", 1_800_000_000, 1_800_000_900),
            sign_in.SignInAuthorized("usr_1", True, 1_800_000_001),
            sign_in.SignInDenied(1_800_000_001),
            sign_in.SignInRedeemed("key_1", 1_800_000_002),
        ],
    )


@pytest.mark.parametrize("typed", ["BCDF-GHJK", "bcdfghjk", " bcdf ghjk ", "Bcdf-Ghjk-"])
def test_case_and_dash_do_not_matter(typed: str):
    assert sign_in.normal_user_code(typed) == "BCDFGHJK"


class SignInMachine(RuleBasedStateMachine):
    """One user code against a plain model over a clock that only moves on."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History(sign_in.MACHINE)
        self.now = 1_000
        self.codes = 0
        self.status = S.ABSENT
        self.ends = 0
        self.user = ""

    @property
    def live(self) -> bool:
        return self.now < self.ends

    @rule(seconds=st.sampled_from([0, 1, 5, LIFETIME - 1, LIFETIME, 2 * LIFETIME]))
    def wait(self, seconds):
        self.now += seconds

    @rule()
    def start(self):
        code = f"hash-{self.codes + 1}"

        def decide(state):
            return sign_in.decide_start(state, code, None, self.now)

        if self.live:
            self.history.refuses(decide, sign_in.UserCodeTaken)
            return
        assert self.history.carry_out(decide) == [sign_in.SignInStarted(code, None, self.now, self.now + LIFETIME)]
        self.codes += 1
        self.status, self.ends, self.user = S.PENDING, self.now + LIFETIME, ""

    @rule(user=st.sampled_from(["usr_1", "usr_2"]), is_new=st.booleans())
    def authorize(self, user, is_new):
        def decide(state):
            return sign_in.decide_authorize(state, user, self.now, is_new=is_new)

        if self.live and self.status is S.PENDING:
            assert self.history.carry_out(decide) == [sign_in.SignInAuthorized(user, is_new, self.now)]
            self.status, self.user = S.AUTHORIZED, user
        elif self.live and self.user == user and self.status in {S.AUTHORIZED, S.REDEEMED}:
            assert self.history.carry_out(decide) == []
        else:
            self.history.refuses(decide, sign_in.UserCodeNotFound)

    @rule()
    def deny(self):
        def decide(state):
            return sign_in.decide_deny(state, self.now)

        if self.live and self.status in {S.PENDING, S.AUTHORIZED}:
            assert self.history.carry_out(decide) == [sign_in.SignInDenied(self.now)]
            self.status = S.DENIED
        elif self.live and self.status is S.DENIED:
            assert self.history.carry_out(decide) == []
        else:
            self.history.refuses(decide, sign_in.UserCodeNotFound)

    @rule(back=st.integers(0, 2))
    def redeem(self, back):
        code = f"hash-{self.codes - back}"

        def decide(state):
            return sign_in.decide_redeem(state, code, "key_1", self.now)

        if not self.live or back or self.status in {S.ABSENT, S.REDEEMED}:
            self.history.refuses(decide, sign_in.DeviceCodeOver)
        elif self.status is S.DENIED:
            self.history.refuses(decide, sign_in.AccessDenied)
        elif self.status is S.PENDING:
            assert self.history.carry_out(decide) == []
        else:
            events = decide(self.history.state)
            assert events == [sign_in.SignInRedeemed("key_1", self.now)]
            # Redeeming is the one wish that is not granted again: the key was shown once.
            self.history.carry_out(lambda state: events if state.status is S.AUTHORIZED else [])
            self.history.refuses(decide, sign_in.DeviceCodeOver)
            self.status = S.REDEEMED

    @invariant()
    def folds(self):
        self.history.check()
        assert self.history.state.status is self.status
        assert self.history.state.live(self.now) is self.live


TestSignIn = SignInMachine.TestCase


# The pace of a polling device: it slows the hasty down, and starves nobody (G-020).


@given(st.lists(st.integers(0, 20), min_size=1, max_size=60))
def test_an_interval_grows_by_five_for_each_early_poll_and_by_nothing_else(gaps: list[int]):
    now, pace = 1_000, None
    pace, early = next_pace(pace, now)
    assert not early
    for gap in gaps:
        now += gap
        before = pace
        pace, early = next_pace(before, now)
        assert early == (gap < before.interval - PACE_TOLERANCE)
        assert pace == Pace(now, min(before.interval + 5, 60) if early else before.interval)


@given(st.lists(st.integers(-400, 400), min_size=2, max_size=200), st.integers(0, 999))
def test_a_client_at_the_pace_it_was_told_is_never_slowed_down(jitters: list[int], phase: int):
    """Polls every five seconds, each up to 0.4 s off, on a clock of whole seconds."""
    pace = None
    for number, jitter in enumerate(jitters):
        milliseconds = 1_000_000 + phase + number * 5_000 + jitter
        pace, early = next_pace(pace, milliseconds // 1_000)
        assert not early
