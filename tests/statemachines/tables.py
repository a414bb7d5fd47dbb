"""What every machine's table is held to: each edge taken, each non-edge refused, the state unchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec
import pytest

from service.eventstore.read.stored import canonical
from statemachines.kernel.machine import Event, StateMachine, allowed_next, apply, permits, replay

GOLDEN = Path(__file__).parents[1] / "golden" / "events"


def check_table(
    machine: StateMachine[Any], edges: Iterable[tuple[str, Enum, Enum]], examples: Mapping[str, Event]
) -> None:
    """Compare the table with the expected edges, event by event in every status."""
    expected = {(topic, source): dest for topic, source, dest in edges}
    assert {topic for topic, _ in expected} == set(examples)
    for status in type(machine.initial.status):
        state = msgspec.structs.replace(machine.initial, status=status)
        before = msgspec.to_builtins(state)
        for topic, event in examples.items():
            if (topic, status) in expected:
                assert apply(machine, state, event).status is expected[topic, status]
            else:
                with pytest.raises(machine.conflict) as refused:
                    apply(machine, state, event)
                assert refused.value.details["allowed_next"] == allowed_next(machine, state)
                assert not permits(machine, state, event)
            assert msgspec.to_builtins(state) == before


def check_released(machine: StateMachine[Any], events: Sequence[Event]) -> None:
    """Every event of a machine, as it was released, is still read, and still written to the byte."""
    assert {event.TOPIC for event in events} == set(machine.table.events)
    for event in events:
        golden = (GOLDEN / f"{event.TOPIC}.json").read_bytes()
        assert msgspec.json.decode(golden, type=type(event)) == event
        assert canonical(event) == golden


class History:
    """A stream under test: carries out decisions as the unit of work does, and keeps every event."""

    def __init__(self, machine: StateMachine[Any]) -> None:
        self.machine = machine
        self.state = machine.initial
        self.events: list[Event] = []

    def carry_out(self, decide: Callable[[Any], Sequence[Event]]) -> list[Event]:
        """Decide, append, and prove that the same wish repeated at once records nothing."""
        events = list(decide(self.state))
        for event in events:
            self.state = apply(self.machine, self.state, event)
        self.events.extend(events)
        assert list(decide(self.state)) == []
        return events

    def refuses(self, decide: Callable[[Any], Sequence[Event]], refusal: type[Exception]) -> None:
        """Prove that a decision is refused and leaves the state as it was."""
        before = self.state
        with pytest.raises(refusal):
            decide(self.state)
        assert self.state is before

    def check(self) -> None:
        """Prove that the history folds to the state, through JSON as it is stored."""
        stored = [msgspec.json.decode(msgspec.json.encode(event), type=type(event)) for event in self.events]
        assert replay(self.machine, stored) == self.state
