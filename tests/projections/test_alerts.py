"""The row of an alert shows its latest verdict; a deleted one has no row."""

from __future__ import annotations

from projections.alerts import ALERTS
from statemachines.alerts import AlertCleared, AlertCreated, AlertDeleted, AlertFoundClear, AlertTriggered
from statemachines.kernel.machine import Event
from tests.projections.rows import check_ended, check_middle, check_row

CREATED = AlertCreated("Sales", "event-count", '{"days":1}', "row_count", "lt", "0.5", "first", 5)
KNOWN = {
    "name": "Sales",
    "blueprint_id": "event-count",
    "params": '{"days":1}',
    "threshold_column": "row_count",
    "threshold_op": "lt",
    "threshold_value": "0.5",
    "row_match": "first",
    "created_at": 5,
}


def test_a_row_shows_its_stream() -> None:
    events: list[Event] = [CREATED]
    check_row(ALERTS, events, KNOWN | {"revision": 1, "status": "created"})
    events = [*events, AlertTriggered("0.25", 6)]
    check_row(ALERTS, events, KNOWN | {"revision": 2, "status": "triggered"})
    events = [*events, AlertCleared(None, 7)]
    check_row(ALERTS, events, KNOWN | {"revision": 3, "status": "evaluated_clear"})
    check_middle(ALERTS, [*events, AlertDeleted(8)])
    check_row(ALERTS, [CREATED, AlertFoundClear(None, 6)], KNOWN | {"revision": 2, "status": "evaluated_clear"})


def test_what_is_deleted_has_no_row() -> None:
    check_ended(ALERTS, [CREATED, AlertTriggered("1", 6), AlertDeleted(7)])
