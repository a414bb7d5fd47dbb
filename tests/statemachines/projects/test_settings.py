"""Settings: every edge, the fence of a change, what loosens, and repetition (G-202)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from statemachines.kernel.machine import Event, IfMatchRequired, PreconditionFailed, apply
from statemachines.projects import settings
from statemachines.projects.project import Project
from statemachines.projects.settings import InForce, ProjectSettingsChanged, Settings, SettingsWish, Status
from tests.statemachines.tables import History, check_released, check_table

NEW, BEFORE = Project(accept_public_events=False), Project(accept_public_events=True)
CHANGED = ProjectSettingsChanged("usr_1", 5, accept_public_events=True)


def change(state: Settings, project: Project = NEW, *, if_match: str | None = None, **wish: object) -> list[Event]:
    return settings.decide_change(
        state, project, SettingsWish(**wish), project_id="proj_1", if_match=if_match, by="usr_1", now=5
    )


def test_the_settings_move_along_the_edges_only():
    check_table(
        settings.MACHINE,
        [
            (CHANGED.TOPIC, Status.DEFAULT, Status.CHANGED),
            (CHANGED.TOPIC, Status.CHANGED, Status.CHANGED),
        ],
        {CHANGED.TOPIC: CHANGED},
    )


def test_stored_events_stay_readable():
    changed = ProjectSettingsChanged("changed_by_1", 1_800_000_000, accept_public_events=True)
    check_released(settings.MACHINE, [changed])
    of_intake = ProjectSettingsChanged("usr_1", 5, default_level="info", frame_variables=False)
    stored = b'{"changed_by":"usr_1","changed_at":5,"default_level":"info","frame_variables":false}'
    assert msgspec.json.encode(of_intake) == stored
    assert msgspec.json.decode(stored, type=ProjectSettingsChanged) == of_intake


@pytest.mark.parametrize(("project", "accepts"), [(NEW, False), (BEFORE, True)])
def test_a_setting_that_nobody_set_has_the_default_of_its_project(project: Project, accepts: bool):
    assert settings.in_force(Settings(), project) == InForce(accepts)
    assert change(Settings(), project, accept_public_events=accepts) == []
    [event] = change(Settings(), project, accept_public_events=not accepts)
    state = apply(settings.MACHINE, Settings(), event)
    assert settings.in_force(state, project) == InForce(not accepts)


def test_the_first_change_takes_no_tag_and_each_later_one_the_present_one():
    with pytest.raises(PreconditionFailed) as refused:
        change(Settings(), accept_public_events=True, if_match='"set:proj_1:1"')
    assert refused.value.details == {"current_etag": None}
    state = apply(settings.MACHINE, Settings(), CHANGED)
    with pytest.raises(IfMatchRequired):
        change(state, accept_public_events=False)
    for stale in ('"set:proj_1:2"', 'W/"set:proj_1:1"', '"set:proj_2:1"', '""'):
        with pytest.raises(PreconditionFailed) as refused:
            change(state, accept_public_events=False, if_match=stale)
        assert refused.value.details == {"current_etag": '"set:proj_1:1"'}
    assert len(change(state, accept_public_events=False, if_match='"set:proj_1:1"')) == 1


def test_only_what_lets_more_start_loosens():
    on, off = InForce(accept_public_events=True), InForce(accept_public_events=False)
    assert not settings.loosens(off, InForce(accept_public_events=False, default_level="info", frame_variables=True))
    assert settings.loosens(off, on)
    assert not any(settings.loosens(one, other) for one, other in ((on, off), (on, on), (off, off)))
    strict = InForce(accept_public_events=False, required_evidence_source="provider_cloud")
    assert settings.loosens(strict, off)
    assert not any(settings.loosens(one, strict) for one in (on, off, strict))
    none, tenth, half = (
        InForce(accept_public_events=False, maximum_error_probability=maximum) for maximum in (None, "0.1", "0.5")
    )
    assert settings.loosens(tenth, half)
    assert settings.loosens(half, none)
    assert not any(settings.loosens(one, other) for one, other in ((none, tenth), (half, tenth), (tenth, tenth)))


class SettingsMachine(RuleBasedStateMachine):
    """The settings of a new project against a plain dict."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History(settings.MACHINE)
        self.model: dict[str, object] = {
            "accept_public_events": False,
            "default_level": "error",
            "frame_variables": False,
            "required_evidence_source": None,
            "maximum_error_probability": None,
            "notification_titles": True,
        }

    @rule(
        wish=st.fixed_dictionaries(
            {},
            optional={
                "accept_public_events": st.booleans(),
                "default_level": st.sampled_from(["error", "info"]),
                "frame_variables": st.booleans(),
                "required_evidence_source": st.sampled_from([None, "provider_cloud"]),
                "maximum_error_probability": st.sampled_from([None, "0.05", "0.5"]),
                "notification_titles": st.booleans(),
            },
        )
    )
    def change(self, wish: dict[str, object]) -> None:
        events = self.history.carry_out(
            lambda state: change(state, if_match=settings.make_etag("proj_1", state.revision), **wish)
        )
        assert len(events) == (self.model | wish != self.model)
        self.model |= wish

    @invariant()
    def the_settings_are_those_of_the_model(self) -> None:
        state = self.history.state
        assert msgspec.to_builtins(settings.in_force(state, NEW)) == self.model
        assert state.revision == len(self.history.events)


TestSettingsMachine = SettingsMachine.TestCase
