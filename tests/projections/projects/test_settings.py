"""The row of the settings shows the latest change of each (G-202)."""

from __future__ import annotations

from projections.projects.settings import PROJECTION
from statemachines.projects.settings import ProjectSettingsChanged
from tests.projections.rows import check_row, fold

ON = ProjectSettingsChanged("usr_1", 5, accept_public_events=True)
OFF = ProjectSettingsChanged("usr_2", 6, accept_public_events=False)
NOTHING = ProjectSettingsChanged("usr_3", 7)
OF_INTAKE = {"default_level": None, "frame_variables": None, "required_evidence_source": None}


def test_a_row_shows_its_stream():
    assert fold(PROJECTION, []) is None
    latest = {"revision": 2, "changed_by": "usr_2", "changed_at": 6}
    check_row(PROJECTION, [ON, OFF], {"accept_public_events": False, **latest, **OF_INTAKE})


def test_a_member_that_is_not_there_stays_as_it_is():
    latest = {"revision": 2, "changed_by": "usr_3", "changed_at": 7}
    for first in (ON, OFF):
        accepts = first.accept_public_events
        check_row(PROJECTION, [first, NOTHING], {"accept_public_events": accepts, **latest, **OF_INTAKE})
    of_intake = ProjectSettingsChanged("usr_3", 7, default_level="info", frame_variables=True)
    intake = {"accept_public_events": True, "default_level": "info", "frame_variables": True}
    check_row(PROJECTION, [ON, of_intake], latest | intake | {"required_evidence_source": None})


def test_whose_evidence_is_required_and_taken_back():
    strict = ProjectSettingsChanged("usr_1", 5, required_evidence_source="provider_cloud")
    free = ProjectSettingsChanged("usr_2", 6, required_evidence_source=None)
    latest = {"revision": 2, "changed_by": "usr_2", "changed_at": 6, "accept_public_events": None}
    assert fold(PROJECTION, [strict]).required_evidence_source == "provider_cloud"
    check_row(PROJECTION, [strict, free], latest | OF_INTAKE)
