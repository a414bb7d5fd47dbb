"""The first pipeline of a round: take the locks in order, and read what they protect in later statements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from projections.kernel.projection import Table
from service.eventstore import names, statements
from service.eventstore.arrays import array, columns
from service.eventstore.cache import StateCache, StreamName
from service.eventstore.commands import Lookup
from service.eventstore.connection import Connection
from service.eventstore.entry import Entry, RecordName
from service.eventstore.idempotency import Record
from service.eventstore.unit import Registry, RowName, Working, fold_rows
from statemachines.kernel.machine import Recorded, Stream
from statemachines.kernel.topics import decode_event


@dataclass(slots=True)
class Loaded:
    """What the first pipeline brought back."""

    gates: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    heads: dict[StreamName, tuple[int, bytes]] = field(default_factory=dict)  # locked: revision, chain
    seen: dict[StreamName, int] = field(default_factory=dict)  # visible, locked or not
    records: dict[RecordName, Record] = field(default_factory=dict)
    tails: dict[StreamName, list[tuple[Any, ...]]] = field(default_factory=dict)
    snapshots: dict[StreamName, tuple[int, str]] = field(default_factory=dict)
    rows: dict[RowName, Any] = field(default_factory=dict)


class Footprint:
    """What a batch locks and loads: gates, names, streams and rows, worked out before the transaction begins.

    Streams that are `counted` are locked like those that are read, but nothing of them is loaded: their heads alone
    show whether what is cached still holds.
    """

    def __init__(
        self,
        registry: Registry,
        cache: StateCache,
        *,
        gates: Iterable[str],
        writes: Iterable[Stream],
        reads: Iterable[Stream],
        names_wanted: Iterable[str],
        records: Sequence[RecordName],
        lookups: Iterable[Lookup] = (),
        exclusive: Iterable[str] = (),
        counted: Iterable[Stream] = (),
    ) -> None:
        self.exclusive = sorted(names.gate(scope) for scope in exclusive)
        self.gates = sorted({names.READ_MODELS, *(names.gate(scope) for scope in gates)} - set(self.exclusive))
        self.writes = {s.name: s for s in writes}
        self.reads = {s.name: s for s in reads if s.name not in self.writes}
        self.streams = self.writes | self.reads
        self.shared = {**self.reads, **{s.name: s for s in counted if s.name not in self.writes}}
        self.records = records
        self.cache = cache
        kinds = {stream.machine.kind for stream in self.streams.values()}
        self.tables = sorted({p.table.name for kind in kinds for p in registry.inline.get(kind, ())})
        known = {name: cache.get(name) for name in self.streams}
        cold = [stream for name, stream in self.streams.items() if known[name] is None]
        # A stream in the cache exists; any other may have to be created, which takes the lock of its name.
        to_create = [names.new_stream(*stream.name) for stream in cold if stream.name in self.writes]
        self.names = sorted({*names_wanted, *to_create})
        self.have: list[tuple[str, str, int, int]] = []
        for name, stream in self.streams.items():
            at = known[name]
            version = stream.machine.version if at is None and stream.machine.snapshots else 0
            self.have.append((*name, at.revision if at else 0, version))
        self.snapshots = [(p, s, version) for p, s, _, version in self.have if version]
        self.rows: dict[Table[Any], dict[StreamName, None]] = {}
        for table, project_id, row_id in lookups:
            self.rows.setdefault(table, {})[(project_id, row_id)] = None
        for stream in cold:
            for projection in registry.inline.get(stream.machine.kind, ()):
                self.rows.setdefault(projection.table, {})[stream.name] = None

    @classmethod
    def of_commands(
        cls, registry: Registry, cache: StateCache, entries: Sequence[Entry], exclusive: Sequence[str]
    ) -> Footprint:
        """Collect what these commands declare."""
        commands = [entry.command for entry in entries]
        return cls(
            registry,
            cache,
            gates=(gate for c in commands for gate in c.gates),
            writes=(stream for c in commands for stream in c.streams),
            reads=(stream for c in commands for stream in c.reads),
            names_wanted=(entry.key_name for entry in entries),
            records=[entry.record for entry in entries],
            lookups=(lookup for c in commands for lookup in c.lookups),
            exclusive=exclusive,
        )


def lock_and_load(connection: Connection, footprint: Footprint, wait_ms: int | None) -> Loaded:
    """Run the pipeline. `wait_ms` bounds every wait in it (None: heads are tried); only heads and fences wait.

    While a read model is swapped, and when one was since its rows were cached, nothing is got: the batch is busy, and
    the next one finds an empty cache.
    """
    execute = connection.execute
    cursors: dict[str, Iterable[tuple[Any, ...]]] = {}
    gates = {names.lock_number(name): name for name in footprint.gates}
    wanted = {names.lock_number(name): name for name in footprint.names}
    with connection.pipeline():
        execute("begin")
        if wait_ms is not None:
            execute(statements.LOCK_TIMEOUT, (f"{wait_ms}ms",), prepare=True)
        for name in footprint.exclusive:
            execute(statements.WAIT_GATE, (names.lock_number(name),), prepare=True)
        cursors["gates"] = execute(statements.TRY_GATES, (array(gates),), prepare=True)
        cursors["names"] = execute(statements.TRY_NAMES, (array(wanted),), prepare=True)
        if footprint.writes:
            lock_heads = statements.TRY_HEADS if wait_ms is None else statements.WAIT_HEADS
            cursors["writes"] = execute(lock_heads, columns(footprint.writes, 2), prepare=True)
        if footprint.shared:
            cursors["reads"] = execute(statements.SHARE_HEADS, columns(footprint.shared, 2), prepare=True)
        if footprint.streams:
            cursors["seen"] = execute(statements.SEE_HEADS, columns(footprint.streams, 2), prepare=True)
        if footprint.records:
            cursors["records"] = execute(statements.RECORDS, columns(footprint.records, 4), prepare=True)
        if footprint.streams:
            cursors["tails"] = execute(statements.TAILS, columns(footprint.have, 4), prepare=True)
        if footprint.snapshots:
            cursors["snapshots"] = execute(statements.SNAPSHOTS, columns(footprint.snapshots, 3), prepare=True)
        rows = [
            (table, ids, execute(statements.load_rows(table), columns(ids, 2), prepare=True))
            for table, ids in footprint.rows.items()
        ]
        if footprint.tables:
            cursors["tables"] = execute(statements.TABLES, (array(footprint.tables),), prepare=True)
    loaded = _collect(cursors)
    loaded.gates = {*footprint.exclusive, *(gates[n] for n, ok in cursors["gates"] if ok)}
    if names.READ_MODELS not in loaded.gates or not footprint.cache.keeps_to(dict(cursors.get("tables", ()))):
        return Loaded()
    loaded.names = {wanted[n] for n, ok in cursors["names"] if ok}
    for table, ids, cursor in rows:
        loaded.rows.update({(table.name, *name): None for name in ids})
        for (text,) in cursor:
            row = msgspec.json.decode(text, type=table.row)
            loaded.rows[(table.name, row.project_id, row.id)] = row
    return loaded


def _collect(cursors: Mapping[str, Iterable[tuple[Any, ...]]]) -> Loaded:
    """Sort what came back about streams and records."""
    loaded = Loaded()
    for part in ("writes", "reads"):
        loaded.heads.update({(p, s): (revision, bytes(chain)) for p, s, revision, chain in cursors.get(part, ())})
    loaded.seen = {(p, s): revision for p, s, revision, _ in cursors.get("seen", ())}
    for p, principal, operation, key, request_hash, command_id, status, body, headers in cursors.get("records", ()):
        loaded.records[(p, principal, operation, key)] = Record(
            request_hash, command_id, status, bytes(body or b""), msgspec.json.decode(headers or "{}")
        )
    for p, s, *tail in cursors.get("tails", ()):
        loaded.tails.setdefault((p, s), []).append(tuple(tail))
    for p, s, revision, state in cursors.get("snapshots", ()):
        loaded.snapshots[(p, s)] = (revision, state)
    return loaded


def fold_stream(registry: Registry, cache: StateCache, stream: Stream, loaded: Loaded) -> Working:
    """Bring a stream to its locked head: from the cache, a snapshot or the beginning, plus the tail."""
    machine, name = stream.machine, stream.name
    if name not in loaded.heads:
        # Absent. A stream that is only read may be created between two statements: what came after that is not ours.
        return Working(stream, 0, machine.initial, {})
    known = cache.get(name)
    revision, state = 0, machine.initial
    rows: Mapping[str, Any] = {}
    if known is not None:
        revision, state, rows = known.revision, known.state, known.rows
    else:
        if name in loaded.snapshots:
            revision, text = loaded.snapshots[name]
            state = msgspec.json.decode(text, type=machine.state_type)
        rows = {p.table.name: loaded.rows[(p.table.name, *name)] for p in registry.inline.get(machine.kind, ())}
    for tail_revision, topic, payload, recorded_at, actor in loaded.tails.get(name, ()):
        event = decode_event(topic, payload)
        state = machine.evolve(state, event)
        revision = tail_revision
        if known is not None:  # A cold stream's rows were read whole, under the same lock.
            at = int(recorded_at.timestamp())
            recorded = Recorded(stream.id, revision, event, stream.project_id, at, actor)
            rows = fold_rows(registry, machine.kind, rows, recorded)
    head_revision, _ = loaded.heads[name]
    assert revision == head_revision, f"{stream.id} folds to {revision}, its head says {head_revision}"
    return Working(stream, revision, state, rows)
