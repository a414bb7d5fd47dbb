"""The row of the settings shows the latest change of each (G-202)."""

from __future__ import annotations

from projections.projects.settings import PROJECTION
from statemachines.projects.settings import ProjectSettingsChanged
from tests.projections.rows import check_row, fold

ON = ProjectSettingsChanged("usr_1", 5, accept_public_events=True)
OFF = ProjectSettingsChanged("usr_2", 6, accept_public_events=False)
NOTHING = ProjectSettingsChanged("usr_3", 7)


def test_a_row_shows_its_stream():
    assert fold(PROJECTION, []) is None
    check_row(
        PROJECTION,
        [ON, OFF],
        {"revision": 2, "accept_public_events": False, "changed_by": "usr_2", "changed_at": 6},
    )


def test_a_member_that_is_not_there_stays_as_it_is():
    for first in (ON, OFF):
        accepts = first.accept_public_events
        expected = {"revision": 2, "accept_public_events": accepts, "changed_by": "usr_3", "changed_at": 7}
        check_row(PROJECTION, [first, NOTHING], expected)
    check_row(
        PROJECTION, [NOTHING], {"revision": 1, "accept_public_events": None, "changed_by": "usr_3", "changed_at": 7}
    )
