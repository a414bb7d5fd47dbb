"""Alerts: every edge, every non-edge, replay, repetition, events for changed verdicts alone (G-092, G-162)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from statemachines import alerts
from statemachines.alerts import (
    ALERTS_LIMIT,
    AlertNotFound,
    AlertWish,
    Op,
    RowMatch,
    Threshold,
    ThresholdVerdict,
    TooManyAlerts,
    read_number,
    write_number,
)
from statemachines.kernel.canonical import canonical_sha256
from tests.statemachines.tables import History, check_released, check_table

S = alerts.Status
CREATED = alerts.AlertCreated("Sales", "event-count", "{}", "row_count", "lt", "0.5", "any", 5)
TRIGGERED = alerts.AlertTriggered("0.25", 6)
FOUND_CLEAR = alerts.AlertFoundClear(None, 6)
CLEARED = alerts.AlertCleared(None, 6)
DELETED = alerts.AlertDeleted(7)
WISH = AlertWish("Sales", "event-count", "{}", Threshold("row_count", Op.LT, 0.5))


def test_an_alert_moves_along_the_edges_only() -> None:
    events = {event.TOPIC: event for event in (CREATED, TRIGGERED, FOUND_CLEAR, CLEARED, DELETED)}
    created, triggered, found_clear, cleared, deleted = events
    check_table(
        alerts.MACHINE,
        [
            (created, S.ABSENT, S.CREATED),
            (triggered, S.CREATED, S.TRIGGERED),
            (triggered, S.EVALUATED_CLEAR, S.TRIGGERED),
            (found_clear, S.CREATED, S.EVALUATED_CLEAR),
            (cleared, S.TRIGGERED, S.EVALUATED_CLEAR),
            *((deleted, status, S.DELETED) for status in (S.CREATED, S.EVALUATED_CLEAR, S.TRIGGERED)),
        ],
        events,
    )


def test_released_events_keep_their_shape() -> None:
    moment = 1_800_000_000
    created = alerts.AlertCreated(
        "name_1",
        "blueprint_id_1",
        "params_1",
        "threshold_column_1",
        "threshold_op_1",
        "threshold_value_1",
        "row_match_1",
        moment,
    )
    check_released(
        alerts.MACHINE,
        [
            created,
            alerts.AlertTriggered("observed_value_1", moment),
            alerts.AlertFoundClear("observed_value_1", moment),
            alerts.AlertCleared("observed_value_1", moment),
            alerts.AlertDeleted(moment),
        ],
    )


def test_a_wish_is_kept_whole() -> None:
    """Numbers as decimals: a payload holds no fraction, and its hash survives being stored."""
    [made] = alerts.decide_create(alerts.Alert(), WISH, 5, standing=0)
    assert made == CREATED
    assert canonical_sha256({"value": made.threshold_value}) == canonical_sha256({"value": "0.5"})


class AlertMachine(RuleBasedStateMachine):
    """An alert against a plain model."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History(alerts.MACHINE)
        self.now = 1_000
        self.status = S.ABSENT

    @property
    def stands(self) -> bool:
        return self.status not in {S.ABSENT, S.DELETED}

    @rule(standing=st.sampled_from([0, ALERTS_LIMIT - 1, ALERTS_LIMIT, ALERTS_LIMIT + 1]))
    def create(self, standing: int) -> None:
        def decide(state):
            return alerts.decide_create(state, WISH, self.now, standing=standing)

        if self.status is not S.ABSENT:
            assert self.history.carry_out(decide) == []
        elif standing >= ALERTS_LIMIT:
            self.history.refuses(decide, TooManyAlerts)
        else:
            [made] = self.history.carry_out(decide)
            assert isinstance(made, alerts.AlertCreated)
            self.status = S.CREATED

    @rule(crossed=st.booleans(), observed=st.sampled_from([0, 0.1, 7]), empty=st.booleans())
    def look(self, crossed: bool, observed: float, empty: bool) -> None:
        self.now += 1
        verdict = ThresholdVerdict(crossed=crossed, observed=None if empty and not crossed else observed)

        def decide(state):
            return alerts.decide_look(state, verdict, self.now)

        if not self.stands:
            self.history.refuses(decide, AlertNotFound)
            return
        after = S.TRIGGERED if crossed else S.EVALUATED_CLEAR
        clear = alerts.AlertFoundClear if self.status is S.CREATED else alerts.AlertCleared
        events = self.history.carry_out(decide)
        assert [type(event) for event in events] == (
            [] if self.status is after else [alerts.AlertTriggered if crossed else clear]
        )
        self.status = after

    @rule()
    def delete(self) -> None:
        def decide(state):
            return alerts.decide_delete(state, self.now)

        if not self.stands:
            self.history.refuses(decide, AlertNotFound)
            return
        events = decide(self.history.state)
        before = self.history.state
        self.history.carry_out(lambda state: events if state is before else [])
        self.status = S.DELETED

    @invariant()
    def folds(self) -> None:
        self.history.check()
        assert self.history.state.status is self.status
        assert self.history.state.stands is self.stands


TestAlert = AlertMachine.TestCase


# When rows cross a threshold, and which of their numbers says so (G-092, G-162).

NUMBERS = st.integers(-9, 9) | st.sampled_from([-0.5, 0.25, 2.5])
CELLS = st.none() | NUMBERS


def rows_of(*cells: Any) -> list[dict[str, Any]]:
    return [{"n": cell, "other": 99} for cell in cells]


@pytest.mark.parametrize(
    ("op", "cells", "crossed", "observed"),
    [
        (Op.GT, (1, 5, 6, 9), True, 6),
        (Op.GT, (1, 5, 4), False, 5),
        (Op.GTE, (1, 5, 6), True, 5),
        (Op.GTE, (1, 4.5), False, 4.5),
        (Op.LT, (5, 4, 1), True, 4),
        (Op.LT, (9, 5), False, 5),
        (Op.LTE, (9, 5, 1), True, 5),
        (Op.LTE, (9, 6, 8), False, 6),
        (Op.EQ, (4, 5.0, 6), True, 5.0),
        (Op.EQ, (9, 4, 7), False, 4),
        (Op.EQ, (6, 4), False, 6),
        (Op.NEQ, (5, 5, 7, 1), True, 7),
        (Op.NEQ, (5, None), False, 5),
        (Op.LT, (None, None), False, None),
        (Op.NEQ, (), False, None),
        (Op.LT, (None, 0), True, 0),
    ],
)
def test_the_first_number_that_crosses_else_the_nearest(
    op: Op, cells: tuple[Any, ...], crossed: bool, observed: Any
) -> None:
    found = Threshold("n", op, 5).judge(rows_of(*cells))
    assert (found.crossed, found.observed) == (crossed, observed)


def test_of_the_first_row_alone() -> None:
    """A first row without a number is no number, whatever follows."""
    first = Threshold("n", Op.GT, 5, RowMatch.FIRST)
    assert not first.judge(rows_of(1, 9)).crossed
    assert first.judge(rows_of(9, 1)).observed == 9
    assert first.judge(rows_of(None, 9)).observed is None
    assert not first.judge([]).crossed


@given(op=st.sampled_from(Op), value=NUMBERS, cells=st.lists(CELLS), match=st.sampled_from(RowMatch))
def test_against_the_words_of_the_rule(op: Op, value: Any, cells: list[Any], match: RowMatch) -> None:
    found = Threshold("n", op, value, match).judge(rows_of(*cells))
    numbers = [cell for cell in (cells[:1] if match is RowMatch.FIRST else cells) if cell is not None]
    crosses = {
        Op.GT: lambda n: n > value,
        Op.GTE: lambda n: n >= value,
        Op.LT: lambda n: n < value,
        Op.LTE: lambda n: n <= value,
        Op.EQ: lambda n: n == value,
        Op.NEQ: lambda n: n != value,
    }[op]
    crossing = [n for n in numbers if crosses(n)]
    assert found.crossed is bool(crossing)
    if crossing:
        assert found.observed == crossing[0]
    elif not numbers:
        assert found.observed is None
    else:
        nearest = min(abs(n - value) for n in numbers)
        expected = {Op.GT: max, Op.GTE: max, Op.LT: min, Op.LTE: min}.get(op)
        assert found.observed == expected(numbers) if expected else abs(found.observed - value) == nearest


@given(st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_survives_as_a_decimal(number: float) -> None:
    assert read_number(write_number(number)) == number


def test_a_whole_number_has_one_form() -> None:
    assert (write_number(5.0), write_number(5), write_number(0.05)) == ("5", "5", "0.05")
