"""API keys: every edge, every non-edge, replay, and repetition (R-AUTH, G-027)."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from statemachines.accounts import key
from tests.statemachines.tables import History, check_released, check_table

HASH = "0123456789abcdef" * 4
S = key.Status


def test_a_key_moves_along_the_edges_only():
    check_table(
        key.MACHINE,
        [(key.KeyMinted.TOPIC, S.ABSENT, S.LIVE), (key.KeyRevoked.TOPIC, S.LIVE, S.REVOKED)],
        {
            key.KeyMinted.TOPIC: key.KeyMinted("usr_1", "0" * 64, "service_sk_abcde", None, 5),
            key.KeyRevoked.TOPIC: key.KeyRevoked(6),
        },
    )


def test_released_events_keep_their_shape():
    check_released(
        key.MACHINE,
        [
            key.KeyMinted("usr_1", HASH, "service_sk_abcde", "dev_1", 1_800_000_000),
            key.KeyRevoked(1_800_000_001),
        ],
    )


class KeyMachine(RuleBasedStateMachine):
    """A key against a plain model: absent, live, revoked."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History(key.MACHINE)
        self.model = S.ABSENT

    @precondition(lambda self: self.model is S.ABSENT)
    @rule(now=st.integers(1))
    def mint(self, now):
        event = key.KeyMinted("usr_1", "0" * 64, "service_sk_abcde", None, now)
        self.history.carry_out(lambda state: [event] if state.status is S.ABSENT else [])
        self.model = S.LIVE

    @rule(now=st.integers(1))
    def revoke(self, now):
        if self.model is S.ABSENT:
            self.history.refuses(lambda state: key.decide_revoke(state, now), key.KeyNotFound)
            return
        events = self.history.carry_out(lambda state: key.decide_revoke(state, now))
        assert events == ([key.KeyRevoked(now)] if self.model is S.LIVE else [])
        self.model = S.REVOKED

    @invariant()
    def folds(self):
        self.history.check()
        assert self.history.state.status is self.model


TestKey = KeyMachine.TestCase
