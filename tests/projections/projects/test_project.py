"""The row of a project shows the stream, and is gone with the project."""

from __future__ import annotations

from typing import Any

from projections.projects.project import PROJECTION, PUBLIC_DSNS
from statemachines.kernel.machine import Event
from statemachines.projects import project
from tests.projections.rows import check_ended, check_middle, check_row, fold

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


NEW = project.ProjectCreated(
    "shop", "usr_1", False, "0" * 64, "service_dsn_01234567", 5, "f" * 64, "service_dsn_pub_ffff", False, "info"
)
ROTATED = project.PublicDsnRotated("a" * 64, "service_dsn_pub_aaaa", 6)


def public(letter: str, *, accepts: bool) -> dict[str, Any]:
    return {
        "dsn_hash": letter * 64,
        "dsn_prefix": f"service_dsn_pub_{letter * 4}",
        "accept_public_events": accepts,
        "default_level": "error" if accepts else "info",
    }


def test_the_public_dsn_of_a_new_project_stays_what_it_is():
    check_row(PUBLIC_DSNS, [NEW], {"revision": 1, **public("f", accepts=False)})
    check_row(PUBLIC_DSNS, [NEW, EVENTS[1], ROTATED], {"revision": 3, **public("a", accepts=False)})
    fenced = project.ProjectFenced("del_1", 7)
    check_row(PUBLIC_DSNS, [NEW, ROTATED, fenced], {"revision": 3, **public("a", accepts=False)})
    check_ended(PUBLIC_DSNS, [NEW, fenced, project.ProjectPurged(8)])


def test_a_project_from_before_gets_its_public_dsn_by_the_first_rotation():
    assert fold(PUBLIC_DSNS, EVENTS) is None
    check_row(PUBLIC_DSNS, [EVENTS[0], ROTATED], {"revision": 2, **public("a", accepts=True)})
    second = project.PublicDsnRotated("b" * 64, "service_dsn_pub_bbbb", 7)
    check_row(PUBLIC_DSNS, [EVENTS[0], ROTATED, EVENTS[1], second], {"revision": 4, **public("b", accepts=True)})
    assert fold(PROJECTION, [EVENTS[0], ROTATED]).revision == 2
