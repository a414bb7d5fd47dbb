"""Erasures of people: every edge, every non-edge, rounds, replay and repetition (G-197)."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from statemachines.deletion import erasure
from statemachines.deletion.erasure import (
    MOST_RECEIPTS,
    AskForErasure,
    ErasureBegan,
    ErasureCompleted,
    ErasureFenced,
    OtherErasure,
    request_sha256,
)
from tests.statemachines.tables import History, check_released, check_table

S = erasure.Status
FENCED = ErasureFenced("del_1", "b" * 64, "a" * 64, 2, 10)


def test_an_erasure_moves_along_the_edges_only():
    check_table(
        erasure.MACHINE,
        [
            (ErasureFenced.TOPIC, S.ABSENT, S.FENCED),
            (ErasureFenced.TOPIC, S.DELETED, S.FENCED),
            (ErasureBegan.TOPIC, S.FENCED, S.PURGING),
            (ErasureCompleted.TOPIC, S.PURGING, S.DELETED),
        ],
        {
            ErasureFenced.TOPIC: FENCED,
            ErasureBegan.TOPIC: ErasureBegan(11),
            ErasureCompleted.TOPIC: ErasureCompleted(7, 12),
        },
    )


def test_released_events_keep_their_shape():
    check_released(erasure.MACHINE, [FENCED, ErasureBegan(11), ErasureCompleted(7, 12)])


def test_the_stream_is_the_persons_within_the_project():
    one, other = erasure.stream("proj_1", "a" * 64), erasure.stream("proj_1", "b" * 64)
    assert one.name == ("proj_1", f"era_{'a' * 40}")
    assert one.name != other.name


def test_a_request_is_known_by_who_asks_its_key_and_the_name():
    keys = {request_sha256(user, key, name) for user in "ab" for key in "12" for name in "xy"}
    assert len(keys) == 8


class ErasureMachine(RuleBasedStateMachine):
    """Rounds of one name against a plain model: how far the last one is, and which requests have begun one."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History(erasure.MACHINE)
        self.status = S.ABSENT
        self.rounds: list[str] = []

    @property
    def round(self) -> str:
        return f"del_{len(self.rounds)}"

    @rule(key=st.sampled_from(["k1", "k2", "k3"]), until=st.none() | st.just(5))
    def fence(self, key: str, until: int | None) -> None:
        wish = AskForErasure(f"del_{len(self.rounds) + 1}", "b" * 64, key, until)

        def decide(state):
            return erasure.decide_fence(state, wish, 3, 100)

        if key in self.rounds:
            assert self.history.carry_out(decide) == []
        elif self.status in {S.FENCED, S.PURGING}:
            self.history.refuses(decide, OtherErasure)
        else:
            [event] = self.history.carry_out(decide)
            assert (event.deletion_id, event.names, event.fenced_at) == (wish.deletion_id, 3, until or 100)
            self.status = S.FENCED
            self.rounds.append(key)

    @rule(other=st.booleans())
    def begin(self, other: bool) -> None:
        wanted = "del_of_another_round" if other else self.round

        def decide(state):
            return erasure.decide_begin(state, wanted, 101)

        if self.status is S.ABSENT:
            with pytest.raises(OtherErasure):
                self.history.carry_out(decide)
            return
        due = self.status is S.FENCED and not other
        assert bool(self.history.carry_out(decide)) is due
        self.status = S.PURGING if due else self.status

    @rule(other=st.booleans())
    def complete(self, other: bool) -> None:
        wanted = "del_of_another_round" if other else self.round

        def decide(state):
            return erasure.decide_complete(state, wanted, 9, 102)

        if self.status is S.ABSENT or (self.status is S.FENCED and not other):
            with pytest.raises(OtherErasure):
                self.history.carry_out(decide)
            return
        due = self.status is S.PURGING and not other
        assert bool(self.history.carry_out(decide)) is due
        self.status = S.DELETED if due else self.status

    @invariant()
    def agrees(self) -> None:
        state = self.history.state
        assert state.status is self.status
        assert [*state.earlier, *([state.command_key_sha256] if self.rounds else [])] == self.rounds
        self.history.check()


TestErasure = ErasureMachine.TestCase


def test_requests_of_long_ago_are_forgotten():
    """A round for each of them, and the last ones are known."""
    history = History(erasure.MACHINE)
    for number in range(MOST_RECEIPTS + 3):
        wish = AskForErasure(f"del_{number}", "b" * 64, f"k{number}")
        history.carry_out(lambda state, wish=wish: erasure.decide_fence(state, wish, 1, 1))
        history.carry_out(lambda state, wish=wish: erasure.decide_begin(state, wish.deletion_id, 2))
        history.carry_out(lambda state, wish=wish: erasure.decide_complete(state, wish.deletion_id, 0, 3))
    assert len(history.state.earlier) == MOST_RECEIPTS
    assert erasure.decide_fence(history.state, AskForErasure("del_x", "b" * 64, "k5"), 1, 1) == []
    assert len(erasure.decide_fence(history.state, AskForErasure("del_x", "b" * 64, "k0"), 1, 1)) == 1
