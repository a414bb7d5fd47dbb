"""The row of a project shows the stream, and is gone with the project."""

from __future__ import annotations

from projections.projects.project import PROJECTION
from statemachines.kernel.machine import Event
from statemachines.projects import project
from tests.projections.rows import check_ended, check_middle, check_row

EVENTS: list[Event] = [
    project.ProjectCreated("shop", "usr_1", False, "0" * 64, "service_dsn_01234567", 5),
    project.DsnRotated("1" * 64, "service_dsn_abcdefgh", 6),
    project.ProjectFenced("del_1", 7),
]


def test_a_row_shows_its_stream():
    check_row(
        PROJECTION,
        EVENTS,
        {
            "revision": 3,
            "name": "shop",
            "created_by": "usr_1",
            "synthetic": False,
            "status": "fenced",
            "dsn_hash": "1" * 64,
            "dsn_prefix": "service_dsn_abcdefgh",
            "created_at": 5,
            "fenced_at": 7,
        },
    )


def test_a_history_that_begins_in_the_middle_folds():
    check_middle(PROJECTION, EVENTS)


def test_a_purged_project_has_no_row_and_may_begin_again():
    check_ended(PROJECTION, [*EVENTS, project.ProjectPurged(8)])
