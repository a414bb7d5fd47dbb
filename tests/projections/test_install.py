"""The row of an install shows its stream, and beside a signal map the state of the flow."""

from __future__ import annotations

from projections.install import INSTALLS, InstallRow, install_state, is_verified
from statemachines.kernel.machine import Event
from tests.projections.rows import check_row, fold
from tests.statemachines.test_install import BLOCKED, DRAFTED, REPORTED, VERIFIED

NONE = {
    "map_revision": 0,
    "reported_on": 0,
    "reports": 0,
    "reported_at": None,
    "verified_at": None,
    "evidence_source": "local",
}


def test_a_row_shows_its_stream() -> None:
    events: list[Event] = [DRAFTED]
    check_row(INSTALLS, events, NONE | {"revision": 1, "status": "plan_drafted", "updated_at": 5})
    events = [*events, REPORTED]
    known = NONE | {"map_revision": 1, "reported_on": 1, "reports": 1, "reported_at": 6}
    check_row(INSTALLS, events, known | {"revision": 2, "status": "implemented", "updated_at": 6})
    events = [*events, BLOCKED]
    check_row(INSTALLS, events, known | {"revision": 3, "status": "blocked", "updated_at": 7})
    events = [*events, VERIFIED]
    verified = {"revision": 4, "status": "verified", "updated_at": 7, "verified_at": 7}
    check_row(INSTALLS, events, known | verified)
    events = [*events, REPORTED]
    check_row(INSTALLS, events, known | {"revision": 5, "status": "implemented", "updated_at": 6, "reports": 2})


def test_a_stream_whose_first_payloads_were_erased_folds() -> None:
    assert fold(INSTALLS, [VERIFIED]).verified_at == 7
    assert fold(INSTALLS, [BLOCKED]).reports == 0


def test_a_state_is_about_the_present_map() -> None:
    def shown(events: list[Event], revision: int) -> str:
        row: InstallRow | None = fold(INSTALLS, events)
        assert is_verified(row, revision) == (install_state(row, revision) == "verified")
        return install_state(row, revision)

    assert [shown([], revision) for revision in (0, 1)] == ["project_setup_loaded", "plan_approved"]
    assert [shown([DRAFTED], revision) for revision in (0, 1)] == ["plan_drafted", "plan_approved"]
    for event, word in ((REPORTED, "implemented"), (VERIFIED, "verified"), (BLOCKED, "blocked")):
        assert [shown([event], revision) for revision in (0, 1, 2)] == ["project_setup_loaded", word, "plan_approved"]
