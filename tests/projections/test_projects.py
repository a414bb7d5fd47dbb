"""The row of a project shows the stream, and is gone with the project."""

from __future__ import annotations

from typing import Any

from projections.projects import PROJECT_SETTINGS, PROJECTS, PUBLIC_DSNS
from statemachines.kernel.machine import Event
from statemachines.projects import project
from statemachines.projects.settings import ProjectSettingsChanged
from tests.projections.rows import check_ended, check_middle, check_row, fold

EVENTS: list[Event] = [
    project.ProjectCreated("shop", "usr_1", False, "0" * 64, "service_dsn_01234567", 5),
    project.DsnRotated("1" * 64, "service_dsn_abcdefgh", 6),
    project.ProjectFenced("del_1", 7),
]


def test_the_row_of_a_project_shows_its_stream():
    check_row(
        PROJECTS,
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
    check_middle(PROJECTS, EVENTS)


def test_a_purged_project_has_no_row_and_may_begin_again():
    check_ended(PROJECTS, [*EVENTS, project.ProjectPurged(8)])


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
    assert fold(PROJECTS, [EVENTS[0], ROTATED]).revision == 2


# The row of the settings shows the latest change of each (G-202).

ON = ProjectSettingsChanged("usr_1", 5, accept_public_events=True)
OFF = ProjectSettingsChanged("usr_2", 6, accept_public_events=False)
NOTHING = ProjectSettingsChanged("usr_3", 7)
OF_INTAKE = {
    "default_level": None,
    "frame_variables": None,
    "required_evidence_source": None,
    "maximum_error_probability": None,
    "notification_titles": None,
}


def test_the_row_of_a_settings_shows_its_stream():
    assert fold(PROJECT_SETTINGS, []) is None
    latest = {"revision": 2, "changed_by": "usr_2", "changed_at": 6}
    check_row(PROJECT_SETTINGS, [ON, OFF], {"accept_public_events": False, **latest, **OF_INTAKE})


def test_a_member_that_is_not_there_stays_as_it_is():
    latest = {"revision": 2, "changed_by": "usr_3", "changed_at": 7}
    for first in (ON, OFF):
        accepts = first.accept_public_events
        check_row(PROJECT_SETTINGS, [first, NOTHING], {"accept_public_events": accepts, **latest, **OF_INTAKE})
    of_intake = ProjectSettingsChanged("usr_3", 7, default_level="info", frame_variables=True)
    intake = {"accept_public_events": True, "default_level": "info", "frame_variables": True}
    check_row(PROJECT_SETTINGS, [ON, of_intake], OF_INTAKE | latest | intake)


def test_whose_evidence_is_required_and_taken_back():
    strict = ProjectSettingsChanged("usr_1", 5, required_evidence_source="provider_cloud")
    free = ProjectSettingsChanged("usr_2", 6, required_evidence_source=None)
    latest = {"revision": 2, "changed_by": "usr_2", "changed_at": 6, "accept_public_events": None}
    assert fold(PROJECT_SETTINGS, [strict]).required_evidence_source == "provider_cloud"
    check_row(PROJECT_SETTINGS, [strict, free], latest | OF_INTAKE)
