"""The service in memory: the product's own commands, units, folds and views over dicts, guarded as in the database.

A command reads where its streams are, decides on the states it loaded, and commits only when every declared stream
is still at the revision it was loaded at; otherwise it decides again. Between the three steps other requests may run.
`guarded=False` drops that comparison: the game has to notice.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from projections.cases import CASES
from projections.contracts import AUTOMATION_CONTRACTS
from projections.kernel import AnyProjection, Table
from projections.runs import APPROVALS, CLAIMS, GRANTS, LEASES, LEDGERS, RECEIPTS, RUNS
from service.eventstore.declare.commands import Command, Intent, Origin, Refused
from service.eventstore.state.unit import Batch, Registry, UnitOfWork, Working
from statemachines.kernel.machine import Stream, replay
from tests.support.loop.port import Entry

T = TypeVar("T")
R = TypeVar("R", bound=msgspec.Struct)

PROJECTIONS: tuple[AnyProjection, ...] = (
    RECEIPTS, CLAIMS, LEASES, RUNS, APPROVALS, GRANTS,
    LEDGERS, CASES, AUTOMATION_CONTRACTS,
)  # fmt: skip
REGISTRY = Registry({}, {kind: (projection,) for projection in PROJECTIONS for kind in projection.kinds})


class MemoryStore:
    """Streams, rows and a clock."""

    def __init__(self, *, guarded: bool = True, now: int = 1_800_000_000) -> None:
        self.guarded = guarded
        self.now = now
        self.streams: dict[tuple[str, str], Working] = {}
        self.rows: dict[tuple[str, str, str], Any] = {}
        self.entries: list[Entry] = []

    def row(self, table: Table[R], project_id: str, id: str) -> R | None:
        """Read a row by its key."""
        found: R | None = self.rows.get((table.name, project_id, id))
        return found

    def all(self, table: Table[R]) -> list[R]:
        """Read every row of a table, by id."""
        return [row for (name, _, _), row in sorted(self.rows.items()) if name == table.name and row is not None]

    def put(self, table: Table[R], row: R) -> None:
        """Write a fact."""
        self.rows[(table.name, row.project_id, row.id)] = row  # type: ignore[attr-defined]

    def _load(self, stream: Stream) -> Working:
        return self.streams.get(stream.name) or Working(stream, 0, stream.machine.initial, {})

    def execute(self, actor: str, intent: Intent[T], interleave: Callable[[], None]) -> T:
        """Carry out a intent. Raises its refusal, and Moved."""
        declared = {stream.name: stream for stream in (*intent.streams, *intent.reads)}
        while True:
            loaded = {name: self._load(stream) for name, stream in declared.items()}
            facts = {(table.name, p, i): self.row(table, p, i) for table, p, i in intent.lookups}
            batch = Batch(REGISTRY, datetime.fromtimestamp(self.now, UTC), dict(loaded), facts)
            command = Command(
                origin=Origin(actor, actor, "game", "req_game"),
                decide=lambda _: (_ for _ in ()).throw(AssertionError),
                streams=intent.streams,
                reads=intent.reads,
                lookups=intent.lookups,
            )
            unit = UnitOfWork(batch, command, "cmd_game")
            interleave()
            result = intent.decide(unit)
            moved = any(self._load(stream).revision != loaded[name].revision for name, stream in declared.items())
            moved = moved or any(
                self.row(table, p, i) is not facts[(table.name, p, i)] for table, p, i in intent.lookups
            )
            if moved and self.guarded:
                interleave = _nothing
                continue
            unit.accept()
            self._commit(batch, actor)
            if isinstance(result, Refused):
                raise result.rejection
            return result

    def _commit(self, batch: Batch, actor: str) -> None:
        for new in batch.events:
            self.entries.append(Entry(new.stream.id, new.recorded.revision, new.recorded.event, actor, self.now))
        for name, working in batch.streams.items():
            if working.revision:
                self.streams[name] = working
        for name, (_, row) in batch.written_rows.items():
            self.rows[name] = row

    def check_replay(self) -> None:
        """Prove that states and rows are what the log folds to."""
        histories: dict[str, list[Any]] = {}
        for entry in self.entries:
            histories.setdefault(entry.stream_id, []).append(entry.event)
        for working in self.streams.values():
            events = histories[working.stream.id]
            stored = [msgspec.json.decode(msgspec.json.encode(event), type=type(event)) for event in events]
            assert replay(working.stream.machine, stored) == working.state
            for row in working.rows.values():
                if hasattr(row, "state"):
                    assert row.state == working.state
                    assert msgspec.json.decode(msgspec.json.encode(row), type=type(row)) == row
                assert row.revision == len(events) == working.revision


def _nothing() -> None:
    """Let nobody in between."""
