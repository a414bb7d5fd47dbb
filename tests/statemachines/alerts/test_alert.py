"""Alerts: every edge, every non-edge, replay, repetition, events for changed verdicts alone (G-092, G-162)."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from statemachines.alerts import alert
from statemachines.alerts.alert import ALERTS_LIMIT, AlertNotFound, AlertWish, TooManyAlerts
from statemachines.alerts.threshold import Op, Threshold, ThresholdVerdict
from statemachines.kernel.canonical import canonical_sha256
from tests.statemachines.tables import History, check_released, check_table

S = alert.Status
CREATED = alert.AlertCreated("Sales", "event-count", "{}", "row_count", "lt", "0.5", "any", 5)
TRIGGERED = alert.AlertTriggered("0.25", 6)
FOUND_CLEAR = alert.AlertFoundClear(None, 6)
CLEARED = alert.AlertCleared(None, 6)
DELETED = alert.AlertDeleted(7)
WISH = AlertWish("Sales", "event-count", "{}", Threshold("row_count", Op.LT, 0.5))


def test_an_alert_moves_along_the_edges_only() -> None:
    events = {event.TOPIC: event for event in (CREATED, TRIGGERED, FOUND_CLEAR, CLEARED, DELETED)}
    created, triggered, found_clear, cleared, deleted = events
    check_table(
        alert.MACHINE,
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
    created = alert.AlertCreated(
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
        alert.MACHINE,
        [
            created,
            alert.AlertTriggered("observed_value_1", moment),
            alert.AlertFoundClear("observed_value_1", moment),
            alert.AlertCleared("observed_value_1", moment),
            alert.AlertDeleted(moment),
        ],
    )


def test_a_wish_is_kept_whole() -> None:
    """Numbers as decimals: a payload holds no fraction, and its hash survives being stored."""
    [made] = alert.decide_create(alert.Alert(), WISH, 5, standing=0)
    assert made == CREATED
    assert canonical_sha256({"value": made.threshold_value}) == canonical_sha256({"value": "0.5"})


class AlertMachine(RuleBasedStateMachine):
    """An alert against a plain model."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History(alert.MACHINE)
        self.now = 1_000
        self.status = S.ABSENT

    @property
    def stands(self) -> bool:
        return self.status not in {S.ABSENT, S.DELETED}

    @rule(standing=st.sampled_from([0, ALERTS_LIMIT - 1, ALERTS_LIMIT, ALERTS_LIMIT + 1]))
    def create(self, standing: int) -> None:
        def decide(state):
            return alert.decide_create(state, WISH, self.now, standing=standing)

        if self.status is not S.ABSENT:
            assert self.history.carry_out(decide) == []
        elif standing >= ALERTS_LIMIT:
            self.history.refuses(decide, TooManyAlerts)
        else:
            [made] = self.history.carry_out(decide)
            assert isinstance(made, alert.AlertCreated)
            self.status = S.CREATED

    @rule(crossed=st.booleans(), observed=st.sampled_from([0, 0.1, 7]), empty=st.booleans())
    def look(self, crossed: bool, observed: float, empty: bool) -> None:
        self.now += 1
        verdict = ThresholdVerdict(crossed=crossed, observed=None if empty and not crossed else observed)

        def decide(state):
            return alert.decide_look(state, verdict, self.now)

        if not self.stands:
            self.history.refuses(decide, AlertNotFound)
            return
        after = S.TRIGGERED if crossed else S.EVALUATED_CLEAR
        clear = alert.AlertFoundClear if self.status is S.CREATED else alert.AlertCleared
        events = self.history.carry_out(decide)
        assert [type(event) for event in events] == (
            [] if self.status is after else [alert.AlertTriggered if crossed else clear]
        )
        self.status = after

    @rule()
    def delete(self) -> None:
        def decide(state):
            return alert.decide_delete(state, self.now)

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
