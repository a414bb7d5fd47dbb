"""An alert: a threshold over a column of a blueprint with frozen parameters (R-ALR-03, G-092, G-162).

One stream an alert. Only a changed verdict is an event. A look without a change is a fact beside the stream. Looks by
hand and on schedule may race. Recording a look locks the stream, so of two that saw the same change one records it.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Final

import msgspec

from statemachines.kernel.canonical import with_whole_numbers
from statemachines.kernel.machine import (
    Event,
    LimitReached,
    Rejection,
    StateMachine,
    Stream,
    destination,
    transition_table,
)

# Comparing the rows of a blueprint with a threshold (G-092, G-162). Pure.

Number = int | float


class Op(Enum):
    """The comparison of a number with the threshold."""

    GT = "gt"
    GTE = "gte"
    LT = "lt"
    LTE = "lte"
    EQ = "eq"
    NEQ = "neq"


class RowMatch(Enum):
    """The rows to look at."""

    ANY = "any"
    FIRST = "first"


class ThresholdVerdict(msgspec.Struct, frozen=True):
    """Crossed or not, and the observed number. None without any."""

    crossed: bool
    observed: Number | None


_COMPARE: Final[Mapping[Op, Callable[[Number, Number], bool]]] = {
    Op.GT: operator.gt,
    Op.GTE: operator.ge,
    Op.LT: operator.lt,
    Op.LTE: operator.le,
    Op.EQ: operator.eq,
    Op.NEQ: operator.ne,
}


class Threshold(msgspec.Struct, frozen=True):
    """A comparison for the numbers of a column."""

    column: str
    op: Op
    value: Number
    row_match: RowMatch = RowMatch.ANY

    def judge(self, rows: Sequence[Mapping[str, Any]]) -> ThresholdVerdict:
        """Look at rows. Observed is the first number to cross, otherwise the one nearest to crossing.

        Rows without a number in the column are skipped. Without any number the threshold is not crossed.
        """
        looked_at = rows[:1] if self.row_match is RowMatch.FIRST else rows
        numbers: list[Number] = [row[self.column] for row in looked_at if row[self.column] is not None]
        crosses = _COMPARE[self.op]
        for number in numbers:
            if crosses(number, self.value):
                return ThresholdVerdict(crossed=True, observed=number)
        return ThresholdVerdict(crossed=False, observed=self._nearest(numbers))

    def _nearest(self, numbers: Sequence[Number]) -> Number | None:
        if self.op in {Op.GT, Op.GTE}:
            return max(numbers, default=None)
        if self.op in {Op.LT, Op.LTE}:
            return min(numbers, default=None)
        return min(numbers, key=lambda number: abs(number - self.value), default=None)


def write_number(number: Number) -> str:
    """Write a number as a decimal, the form of events and rows: a payload holds no fraction."""
    return msgspec.json.encode(with_whole_numbers(number)).decode()


def read_number(text: str) -> Number:
    """Read a number written by `write_number`."""
    return msgspec.json.decode(text, type=int | float)


ALERTS_LIMIT = 50
"""Alerts that a project has at most."""
EVERY_SECONDS = 300
"""How often the schedule looks at an alert."""
FIRST_LOOK = 2
"""The revision of an alert after its first look."""


def stream(project_id: str, alert_id: str) -> Stream:
    """History of an alert."""
    return Stream(MACHINE, project_id, alert_id)


class Status(Enum):
    """The verdict of the latest look."""

    ABSENT = "absent"
    CREATED = "created"
    EVALUATED_CLEAR = "evaluated_clear"
    TRIGGERED = "triggered"
    DELETED = "deleted"


class AlertCreated(Event, frozen=True):
    """A member made an alert. `params` are all of the blueprint, as canonical JSON. The value is a decimal."""

    TOPIC = "alert.created.v1"
    name: str | None
    blueprint_id: str
    params: str
    threshold_column: str
    threshold_op: str
    threshold_value: str
    row_match: str
    created_at: int


class AlertTriggered(Event, frozen=True):
    """The threshold is crossed by this value now, and was not before."""

    TOPIC = "alert.triggered.v1"
    observed_value: str
    evaluated_at: int


class AlertFoundClear(Event, frozen=True):
    """The first look: the threshold is not crossed. No value is null."""

    TOPIC = "alert.found_clear.v1"
    observed_value: str | None
    evaluated_at: int


class AlertCleared(Event, frozen=True):
    """The threshold is not crossed now, and was before. No value is null.

    Releases up to 3.0.0 recorded it also for a first look, then at the revision FIRST_LOOK.
    """

    TOPIC = "alert.cleared.v1"
    observed_value: str | None
    evaluated_at: int


class AlertDeleted(Event, frozen=True):
    """A member deleted the alert."""

    TOPIC = "alert.deleted.v1"
    deleted_at: int


TABLE = transition_table(
    Status,
    Status.ABSENT,
    [
        [AlertCreated.TOPIC, Status.ABSENT, Status.CREATED],
        [AlertTriggered.TOPIC, [Status.CREATED, Status.EVALUATED_CLEAR], Status.TRIGGERED],
        [AlertFoundClear.TOPIC, Status.CREATED, Status.EVALUATED_CLEAR],
        [AlertCleared.TOPIC, Status.TRIGGERED, Status.EVALUATED_CLEAR],
        [AlertDeleted.TOPIC, [Status.CREATED, Status.EVALUATED_CLEAR, Status.TRIGGERED], Status.DELETED],
    ],
)


class Alert(msgspec.Struct, frozen=True):
    """The state for decisions on an alert."""

    status: Status = Status.ABSENT

    @property
    def stands(self) -> bool:
        """True between creation and deletion."""
        return self.status not in {Status.ABSENT, Status.DELETED}


class AlertNotFound(Rejection):
    """There is no such alert in the project, or none any more. These look the same."""

    code = "alert_not_found"


class TooManyAlerts(LimitReached):
    """The project has the most alerts allowed."""


class AlertWish(msgspec.Struct, frozen=True):
    """An alert to make. `params` is canonical JSON."""

    name: str | None
    blueprint_id: str
    params: str
    threshold: Threshold


def no_alert() -> AlertNotFound:
    """The one refusal for an absent, deleted or foreign alert."""
    return AlertNotFound("There is no such alert.", next_action="List the alerts of the project.")


def decide_create(state: Alert, wish: AlertWish, now: int, *, standing: int) -> list[Event]:
    """Make an alert beside the `standing` ones. A repeat makes nothing. Raises TooManyAlerts."""
    if state.status is not Status.ABSENT:
        return []
    if standing >= ALERTS_LIMIT:
        raise TooManyAlerts(
            f"A project has at most {ALERTS_LIMIT} alerts.",
            next_action="Delete an alert that is no longer needed.",
        )
    return [
        AlertCreated(
            name=wish.name,
            blueprint_id=wish.blueprint_id,
            params=wish.params,
            threshold_column=wish.threshold.column,
            threshold_op=wish.threshold.op.value,
            threshold_value=write_number(wish.threshold.value),
            row_match=wish.threshold.row_match.value,
            created_at=now,
        )
    ]


def decide_look(state: Alert, verdict: ThresholdVerdict, at: int) -> list[Event]:
    """Record the verdict of a look at a time if it differs from the one before. Raises AlertNotFound."""
    if not state.stands:
        raise no_alert()
    if verdict.crossed:
        assert verdict.observed is not None, "a threshold is crossed by a value"
        if state.status is Status.TRIGGERED:
            return []
        return [AlertTriggered(observed_value=write_number(verdict.observed), evaluated_at=at)]
    if state.status is Status.EVALUATED_CLEAR:
        return []
    observed = None if verdict.observed is None else write_number(verdict.observed)
    event = AlertFoundClear if state.status is Status.CREATED else AlertCleared
    return [event(observed_value=observed, evaluated_at=at)]


def decide_delete(state: Alert, now: int) -> list[Event]:
    """Delete an alert. Raises AlertNotFound once it is gone."""
    if not state.stands:
        raise no_alert()
    return [AlertDeleted(deleted_at=now)]


def evolve(state: Alert, event: Event) -> Alert:
    """Fold an event of an alert."""
    return Alert(Status[destination(TABLE, event, state.status)])


MACHINE = StateMachine("alert", TABLE, Alert(), evolve, AlertNotFound, Alert)
