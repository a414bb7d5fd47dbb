"""Alerts: made, looked at, deleted (R-ALR, G-092, G-162).

The read of a look comes before the unit, as an argument. The definition of an alert never changes. Under the lock of
its stream, the unit checks that it still exists and has no later look.
"""

from __future__ import annotations

from typing import NamedTuple

from projections.alerts.alert import ALERT_COUNTS, ALERT_LOOKS, ALERTS, AlertLookRow, AlertRow
from service.alerts.looking import BlueprintReading, threshold_of
from service.eventstore.declare.commands import Lookup, Unit
from service.eventstore.declare.intents import Intent
from service.ids import new_id
from statemachines.alerts import alert as alerts
from statemachines.alerts.alert import EVERY_SECONDS, AlertWish
from statemachines.alerts.threshold import write_number
from statemachines.kernel.machine import Stream


class EvaluatedAlert(NamedTuple):
    """An alert, and the latest look at it."""

    row: AlertRow
    look: AlertLookRow


class EndedAlert(NamedTuple):
    """A deleted alert, and the time in epoch seconds."""

    id: str
    deleted_at: int


def create(project_id: str, wish: AlertWish) -> Intent[EvaluatedAlert]:
    """Make an alert. Raises TooManyAlerts.

    A fence of the project: rivals for its last place come one after the other.
    """
    stream = alerts.stream(project_id, new_id("alert"))

    def decide(unit: Unit) -> EvaluatedAlert:
        count = unit.row(ALERT_COUNTS, project_id, project_id)
        unit.append(
            stream, alerts.decide_create(unit.state(stream), wish, unit.now, standing=count.standing if count else 0)
        )
        look = AlertLookRow(project_id=project_id, id=stream.id, due_at=unit.now + EVERY_SECONDS)
        unit.put(stream, ALERT_LOOKS, look)
        return EvaluatedAlert(_row(unit, stream), look)

    return Intent([stream], decide, lookups=[Lookup(ALERT_COUNTS, project_id, project_id)], fence=True, saves=True)


def record_look(row: AlertRow, reading: BlueprintReading) -> Intent[EvaluatedAlert]:
    """Record a look at an alert, unless there is a later one. Raises AlertNotFound once it is deleted.

    Returns the latest look, this one or the other.
    """
    stream = alerts.stream(row.project_id, row.id)
    verdict = threshold_of(row).judge(reading.table.rows)
    mine = AlertLookRow(
        project_id=row.project_id,
        id=row.id,
        due_at=reading.at + EVERY_SECONDS,
        asked_us=reading.asked_us,
        evaluated_at=reading.at,
        value=None if verdict.observed is None else write_number(verdict.observed),
    )

    def decide(unit: Unit) -> EvaluatedAlert:
        events = alerts.decide_look(unit.state(stream), verdict, reading.at)
        latest = unit.row(ALERT_LOOKS, row.project_id, row.id)
        if latest is not None and latest.asked_us > mine.asked_us:
            return EvaluatedAlert(_row(unit, stream), latest)
        unit.append(stream, events)
        unit.put(stream, ALERT_LOOKS, mine)
        return EvaluatedAlert(_row(unit, stream), mine)

    return Intent([stream], decide, lookups=[Lookup(ALERT_LOOKS, row.project_id, row.id)])


def delete(project_id: str, alert_id: str) -> Intent[EndedAlert]:
    """Delete an alert. After the answer nobody records a look at it. Raises AlertNotFound."""
    stream = alerts.stream(project_id, alert_id)

    def decide(unit: Unit) -> EndedAlert:
        unit.append(stream, alerts.decide_delete(unit.state(stream), unit.now))
        unit.put(stream, ALERT_LOOKS, AlertLookRow(project_id=project_id, id=alert_id, due_at=None))
        return EndedAlert(alert_id, unit.now)

    return Intent([stream], decide)


def _row(unit: Unit, stream: Stream) -> AlertRow:
    row = unit.row(ALERTS, stream.project_id, stream.id)
    assert row is not None, "an alert that stands has a row"
    return row
