"""A later release of the service, as far as its events go: it appends what this one has never heard of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

import msgspec

from projections.kernel import AnyProjection
from service.eventstore.declare.commands import Answer, Command, Origin, Unit
from service.eventstore.state.unit import Registry
from service.eventstore.store import EventStore
from statemachines.kernel.machine import Event, Recorded, StateMachine, Stream


class Later(msgspec.Struct, frozen=True):
    """Its event; no class of this release, whose topics do not list it."""

    TOPIC: ClassVar[str] = "later.happened.v1"
    DOCUMENT: ClassVar[bool] = False

    note: str = "later"


class _Table:
    """A table that also allows the event, in every status."""

    def __init__(self, machine: StateMachine[Any]) -> None:
        self._table = machine.table
        self.events = [*machine.table.events, Later.TOPIC]

    def get_transitions(self, topic: str, *status: Any) -> Any:
        return [topic] if topic == Later.TOPIC else self._table.get_transitions(topic, *status)


def later_machine(machine: StateMachine[Any]) -> StateMachine[Any]:
    """The machine as the later release has it: the event changes nothing in its state."""

    def evolve(state: Any, event: Any) -> Any:
        return state if isinstance(event, Later) else machine.evolve(state, event)

    table: Any = _Table(machine)
    return machine._replace(table=table, evolve=evolve)


def later_projection(projection: AnyProjection, **change: Any) -> AnyProjection:
    """The projection as the later release has it: the event changes these members of the row."""

    def fold(row: Any, recorded: Recorded) -> Any:
        if isinstance(recorded.event, Later) and row is not None:
            return msgspec.structs.replace(row, revision=recorded.revision, **change)
        return projection.fold(row, recorded)

    return replace(projection, fold=fold)


def happen(stream: Stream, *more: Event, happens: bool = True) -> Command:
    """Append the event of the later release to a stream (unless it does not happen), and then others."""
    events: list[Any] = [*([Later()] if happens else []), *more]

    def decide(unit: Unit) -> Answer:
        unit.append(stream, events)
        return Answer(204, None)

    origin = Origin("system", "later", "LATER", "req_later")
    return Command(origin=origin, decide=decide, streams=[stream], gates=[stream.project_id])


class LaterRelease:
    """A process of the later release that writes streams of one machine. Use as a context manager."""

    def __init__(self, url: str, machine: StateMachine[Any], *inline: AnyProjection) -> None:
        self.machine = later_machine(machine)
        self._store = EventStore(url, Registry({machine.kind: self.machine}, {machine.kind: inline}))

    def __enter__(self) -> Self:
        self._store.start_writing()
        return self

    def __exit__(self, *_: object) -> None:
        self._store.stop_writing()

    def write(self, stream: Stream, *more: Event, happens: bool = True) -> None:
        """Have the event happen on a stream of this release (unless not), and then others."""
        self._store.execute_sync(happen(stream._replace(machine=self.machine), *more, happens=happens))
