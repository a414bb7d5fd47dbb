"""The row of a destination shows its stream, with the rules of members, and of its address only what events hold."""

from __future__ import annotations

from projections.notifications import DESTINATIONS
from statemachines import notifications
from statemachines.kernel.machine import Event
from statemachines.notifications import QuietHours
from tests.projections.rows import check_middle, check_row, fold

NIGHT = QuietHours("22:00", "07:00", "UTC")
EVENTS: list[Event] = [
    notifications.DestinationAdded("slack", "https://example.com", "usr_1", 5),
    notifications.RuleSet("usr_1", ["case.created"], NIGHT, ["case.created"], 6),
    notifications.RuleSet("usr_2", ["run.ended"], None, ["case.created", "run.ended"], 7),
    notifications.RuleSet("usr_1", ["alert.triggered"], None, ["alert.triggered", "run.ended"], 8),
    notifications.DestinationStopped("failing", 9),
]


def test_a_row_shows_its_stream():
    one = {"member_id": "usr_1", "events": ["alert.triggered"], "quiet_hours": None, "set_at": 8}
    two = {"member_id": "usr_2", "events": ["run.ended"], "quiet_hours": None, "set_at": 7}
    shown = {
        "revision": 5,
        "kind": "slack",
        "origin": "https://example.com",
        "rules": [two, one],
        "status": "stopped",
        "member_id": None,
        "stop_reason": "failing",
        "stopped_at": 9,
        "created_at": 5,
    }
    check_row(DESTINATIONS, EVENTS, shown)
    removed = [*EVENTS, notifications.RuleRemoved("usr_2", ["alert.triggered"], 10)]
    check_row(DESTINATIONS, removed, {**shown, "revision": 6, "rules": [one]})
    reopened = {"revision": 6, "status": "active", "stop_reason": None, "stopped_at": None}
    check_row(DESTINATIONS, [*EVENTS, notifications.DestinationReopened(10)], {**shown, **reopened})


def test_a_history_that_begins_in_the_middle_folds():
    check_middle(DESTINATIONS, EVENTS)


def test_a_deleted_destination_has_no_row():
    assert fold(DESTINATIONS, [*EVENTS, notifications.DestinationDeleted(9)]) is None
