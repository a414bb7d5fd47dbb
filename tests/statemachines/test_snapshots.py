"""A state that was stored and read again is the state: for every machine, wherever its history is cut (G-140)."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.registry import machines
from statemachines.kernel.machine import Event, StateMachine, permits, replay
from statemachines.kernel.topics import decode_event
from tests.golden.test_events import golden
from tests.support import short_or_long

STEPS = 12


def restored(machine: StateMachine[Any], state: Any) -> Any:
    """A state by way of a snapshot; the database gives the members of an object back in its own order."""
    stored = json.dumps(json.loads(msgspec.json.encode(state)), sort_keys=True)
    return msgspec.json.decode(stored, type=machine.state_type)


def walk(machine: StateMachine[Any], choices: list[int]) -> list[Event]:
    """A history that the table allows: of what may come next, each time what was chosen."""
    events = [decode_event(topic, golden(topic)) for topic in sorted(machine.table.events)]
    history: list[Event] = []
    state = machine.initial
    for choice in choices:
        possible = [event for event in events if permits(machine, state, event)]
        if not possible:
            break
        history.append(possible[choice % len(possible)])
        state = machine.evolve(state, history[-1])
    return history


@pytest.mark.longer
@pytest.mark.parametrize("kind", sorted(machines()))
def test_snapshot_and_tail_equal_replay(kind: str):
    machine = machines()[kind]

    @settings(max_examples=short_or_long(10, 40))
    @given(st.lists(st.integers(0, 1000), min_size=1, max_size=STEPS), st.integers(0, STEPS))
    def holds(choices: list[int], cut: int) -> None:
        history = walk(machine, choices)
        state = restored(machine, replay(machine, history[:cut]))
        assert state == replay(machine, history[:cut])
        for event in history[cut:]:
            state = machine.evolve(state, event)
        assert state == replay(machine, history)

    holds()


def test_a_snapshot_of_another_form_is_not_taken_up():
    """Neither of another evolve, nor of another set of topics, nor of another shape of the state."""
    machine = machines()["case"]

    class Other(msgspec.Struct):
        status: str

    versions = [machine, machine._replace(version=machine.version + 1), machine._replace(table=machines()["key"].table)]
    versions.append(machine._replace(state_type=Other))
    assert len({made.snapshot_version for made in versions}) == 4
    assert all(0 < made.snapshot_version < 2**31 for made in versions)
