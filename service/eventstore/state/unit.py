"""Units of work inside a batch: each sees what the accepted ones before it did; a refused one leaves no trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, TypeVar, cast

import msgspec

from projections.kernel import AnyProjection, Table
from service.eventstore.declare.commands import Command
from service.eventstore.declare.faults import StreamFault
from service.eventstore.read.stored import canonical
from service.eventstore.state.cache import StreamName, Taken, take_document
from statemachines.kernel.machine import Event, Recorded, StateMachine, Stream, apply

R = TypeVar("R", bound=msgspec.Struct)
RowName = tuple[str, str, str]  # table, project_id, id


class Registry(NamedTuple):
    """The machines by stream kind, and the inline projections by stream kind."""

    machines: Mapping[str, StateMachine[Any]]
    inline: Mapping[str, tuple[AnyProjection, ...]]


class NewEvent(NamedTuple):
    """An accepted event on its way to the log."""

    command: Command
    command_id: str
    stream: Stream
    recorded: Recorded


class Working(msgspec.Struct, frozen=True):
    """A stream as the batch has it: where it was loaded, and where it stands now."""

    stream: Stream
    revision: int
    state: Any
    rows: Mapping[str, Any]
    read: int = 0  # bytes that were read to load it
    documents: Taken = ()  # what owners' documents brought within the last hour


@dataclass(slots=True)
class Batch:
    """Everything loaded under the locks, and everything accepted so far.

    `faults` are those of streams that cannot be read, which are not in `streams`: units that look at one fail.
    """

    registry: Registry
    moment: datetime
    streams: dict[StreamName, Working]
    rows: dict[RowName, Any]
    faults: dict[StreamName, StreamFault] = field(default_factory=dict)
    events: list[NewEvent] = field(default_factory=list)
    written_rows: dict[RowName, tuple[Table[Any], Any]] = field(default_factory=dict)
    now: int = field(init=False)  # epoch seconds of the batch's clock

    def __post_init__(self) -> None:
        self.now = int(self.moment.timestamp())


class UnitOfWork:
    """One command's view of the batch. `accept` merges what it did; dropping it leaves no trace."""

    def __init__(self, batch: Batch, command: Command, command_id: str) -> None:
        self._batch = batch
        self._command = command
        self._command_id = command_id
        self._declared = {stream.name for stream in command.streams}
        self._readable = self._declared | {stream.name for stream in command.reads}
        self._streams: dict[StreamName, Working] = {}
        self._events: list[NewEvent] = []
        self._puts: dict[RowName, tuple[Table[Any], Any]] = {}

    @property
    def now(self) -> int:
        """Epoch seconds of service_now(), read after the locks."""
        return self._batch.now

    def _working(self, stream: Stream) -> Working:
        name = stream.name
        assert name in self._readable, f"{stream.id} was not declared"
        return self._stream(name)

    def _stream(self, name: StreamName) -> Working:
        """The stream as this unit has it. Raises its StreamFault if it cannot be read."""
        if name in self._batch.faults:
            raise self._batch.faults[name]
        return self._streams.get(name) or self._batch.streams[name]

    def state(self, stream: Stream) -> Any:
        """Return the state of a declared stream. Raises StreamFault, as everything here that looks at one does."""
        return self._working(stream).state

    def revision(self, stream: Stream) -> int:
        """Return the number of the last event of a declared stream."""
        return self._working(stream).revision

    def append(self, stream: Stream, events: Sequence[Event]) -> Any:
        """Check each event against the table, append it, fold it into state and rows; return the new state.

        Raises the machine's conflict, and TooManyDocuments for a document beyond its stream's rate (G-140).
        """
        name = stream.name
        assert name in self._declared, f"{stream.id} was not declared for writing"
        working = self._stream(name)
        revision, state, rows, documents = working.revision, working.state, working.rows, working.documents
        actor, now = f"{self._command.origin.actor_kind}:{self._command.origin.actor_id}", self.now
        for event in events:
            state = apply(stream.machine, state, event)
            if event.DOCUMENT:
                documents = take_document(documents, len(canonical(event)), now)
            revision += 1
            recorded = Recorded(stream.id, revision, event, stream.project_id, now, actor)
            rows = fold_rows(self._batch.registry, stream.machine.kind, rows, recorded)
            self._events.append(NewEvent(self._command, self._command_id, stream, recorded))
        if events:
            self._streams[name] = Working(stream, revision, state, rows, working.read, documents)
        return state

    def row(self, table: Table[R], project_id: str, id: str) -> R | None:
        """Return a declared row, or the read-model row of a declared stream, as it stands for this unit."""
        name = (table.name, project_id, id)
        if name in self._puts:
            return cast("R | None", self._puts[name][1])
        if (project_id, id) in self._readable:
            working = self._stream((project_id, id))
            if any(p.name == table.name for p in self._batch.registry.inline.get(working.stream.machine.kind, ())):
                return cast("R | None", working.rows.get(table.name))
        assert name in self._batch.rows, f"row {table.name} of {id} was not declared"
        return cast("R | None", self._batch.rows[name])

    def put(self, stream: Stream, table: Table[R], row: R) -> None:
        """Upsert a fact row that belongs to a declared stream, whose lock protects it."""
        assert stream.name in self._declared, f"{stream.id} was not declared for writing"
        key = tuple(getattr(row, column) for column in table.key)
        self._puts[(table.name, *key)] = (table, row)

    def accept(self) -> None:
        """Merge what this unit did into the batch."""
        batch = self._batch
        for name, working in self._streams.items():
            batch.streams[name] = working
            for projection in batch.registry.inline.get(working.stream.machine.kind, ()):
                row_name = (projection.name, *name)
                row = working.rows.get(projection.name)
                batch.rows[row_name] = row
                batch.written_rows[row_name] = (projection, row)
        for row_name, (table, row) in self._puts.items():
            batch.rows[row_name] = row
            batch.written_rows[row_name] = (table, row)
        batch.events.extend(self._events)


def fold_rows(registry: Registry, kind: str, rows: Mapping[str, Any], recorded: Recorded) -> Mapping[str, Any]:
    """Fold one event into the inline rows of its stream; returns a new mapping."""
    projections = registry.inline.get(kind, ())
    if not projections:
        return rows
    return {**rows, **{p.name: p.fold(rows.get(p.name), recorded) for p in projections}}
