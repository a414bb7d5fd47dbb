"""The stop of the installation: every edge and non-edge, repeats that record nothing, and what it refuses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemachines.contracts.policy import PauseInForce
from statemachines.contracts.stop import (
    MACHINE,
    InstallationResumed,
    InstallationStop,
    InstallationStopped,
    Status,
    decide_resume,
    decide_stop,
    require_lifted,
    stream,
)
from tests.statemachines.tables import History, check_released, check_table

STOPPED, RESUMED = InstallationStopped("incident", 100), InstallationResumed(200)


def test_every_edge_is_taken_and_every_other_refused() -> None:
    """Two events, two statuses."""
    edges = [
        (InstallationStopped.TOPIC, Status.LIFTED, Status.IN_FORCE),
        (InstallationResumed.TOPIC, Status.IN_FORCE, Status.LIFTED),
    ]
    check_table(MACHINE, edges, {InstallationStopped.TOPIC: STOPPED, InstallationResumed.TOPIC: RESUMED})


@given(st.lists(st.booleans()))
def test_it_is_as_the_last_wish_says_and_a_repeat_records_nothing(wishes: list[bool]) -> None:
    """Stops and resumes in any order, against a single flag."""
    history, flag, since = History(MACHINE), False, 0
    for now, stop in enumerate(wishes, 1):
        events = history.carry_out(
            lambda state, stop=stop, now=now: (
                decide_stop(state, why="w", now=now) if stop else decide_resume(state, now=now)
            )
        )
        assert len(events) == (stop is not flag)
        since = since if stop is flag else now
        flag = stop
        assert history.state == InstallationStop(Status.IN_FORCE if flag else Status.LIFTED, since)
        if flag:
            with pytest.raises(PauseInForce):
                require_lifted(history.state)
        else:
            require_lifted(history.state)


def test_there_is_one_of_it() -> None:
    """Every operator and every enable names the same stream."""
    assert stream() == stream()


def test_stored_events_stay_readable() -> None:
    """Golden payloads of both topics."""
    check_released(MACHINE, [InstallationStopped("why_1", 1_800_000_000), InstallationResumed(1_800_000_000)])
