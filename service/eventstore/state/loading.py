"""The first pipeline of a round: take the locks in order, and read what they protect in later statements."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec
import psycopg
import structlog

from projections.kernel import Table
from service.eventstore.connect.connection import Connection, connect
from service.eventstore.connect.pipeline import array, columns
from service.eventstore.declare import names
from service.eventstore.declare.commands import IdempotencyRecord, Lookup
from service.eventstore.declare.faults import StreamDamaged, StreamFault, StreamIsNewer
from service.eventstore.read import statements
from service.eventstore.read.recorder import FencedRecorder
from service.eventstore.read.stored import MAPPER, StoredSnapshot, StreamEvent
from service.eventstore.state.cache import (
    MEBIBYTE,
    Entry,
    RecordName,
    StateCache,
    StreamName,
    read_documents,
)
from service.eventstore.state.unit import Registry, RowName, Working, fold_rows
from service.sql import Statement
from statemachines.kernel.machine import Stream
from statemachines.kernel.topics import UnknownTopic

log = structlog.get_logger()


_NO_ROWS: Mapping[str, Any] = {}
ASK_MOMENT: Final = (statements.MOMENT, ())


class StreamHead(NamedTuple):
    """The head of a stream: `bytes` of payload appended so far (-1: not counted), and what documents brought lately."""

    revision: int
    chain: bytes = b""
    bytes: int = -1
    documents: str | None = None


@dataclass(slots=True)
class Loaded:
    """What the first pipeline brought back.

    `heavy` streams were not loaded, whatever was locked: reading them would hold up the batch. `read` counts the bytes
    that came of each stream that was.
    """

    gates: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    heads: dict[StreamName, StreamHead] = field(default_factory=dict)  # locked
    seen: dict[StreamName, int] = field(default_factory=dict)  # visible, locked or not
    records: dict[RecordName, IdempotencyRecord] = field(default_factory=dict)
    heavy: set[StreamName] = field(default_factory=set)
    tails: dict[StreamName, list[StreamEvent]] = field(default_factory=dict)
    snapshots: dict[StreamName, StoredSnapshot] = field(default_factory=dict)
    read: dict[StreamName, int] = field(default_factory=dict)
    rows: dict[RowName, Any] = field(default_factory=dict)
    told: tuple[Any, ...] = ()  # the answer of the last statement


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
        self.tables = sorted({p.name for kind in kinds for p in registry.inline.get(kind, ())})
        known = {name: cache.get(name) for name in self.streams}
        cold = [stream for name, stream in self.streams.items() if known[name] is None]
        # A stream in the cache exists; any other may have to be created, which takes the lock of its name.
        to_create = [names.new_stream(*stream.name) for stream in cold if stream.name in self.writes]
        self.names = sorted({*names_wanted, *to_create})
        self.have = [
            (*name, *at.mark, 0) if at else (*name, 0, 0, self.streams[name].machine.snapshot_version)
            for name, at in known.items()
        ]
        self.rows: dict[Table[Any], dict[StreamName, None]] = {}
        for table, project_id, row_id in lookups:
            self.rows.setdefault(table, {})[(project_id, row_id)] = None
        self.cold_rows: dict[Table[Any], list[tuple[str, str, int, int, int]]] = {}
        for stream in cold:
            for projection in registry.inline.get(stream.machine.kind, ()):
                wanted = (*stream.name, 0, 0, stream.machine.snapshot_version)
                self.cold_rows.setdefault(projection, []).append(wanted)

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


def lock_and_load(
    connection: Connection,
    footprint: Footprint,
    wait_ms: int | None,
    last: tuple[Statement, Sequence[Any]] = ASK_MOMENT,
) -> Loaded:
    """Run the pipeline. `wait_ms` bounds every wait in it (None: heads are tried); only heads and fences wait.

    `last` is asked after everything else, when all locks are held: by default the clock.

    While a read model is swapped, and when one was since its rows were cached, nothing is got: the batch is busy, and
    the next one finds an empty cache.
    """
    execute = connection.execute
    cursors: dict[str, Iterable[tuple[Any, ...]]] = {}
    tails: Iterable[StreamEvent] = ()
    gates = {names.lock_number(name): name for name in footprint.gates}
    wanted = {names.lock_number(name): name for name in footprint.names}
    have = columns(footprint.have, 5)
    locks = array([*gates, *wanted]), array([1] * len(gates) + [0] * len(wanted))
    with connection.pipeline():
        execute(statements.BEGIN, prepare=True)
        if footprint.exclusive and wait_ms is not None:
            execute(statements.LOCK_TIMEOUT, (f"{wait_ms}ms",), prepare=True)
        for name in footprint.exclusive:
            execute(statements.WAIT_GATE, (names.lock_number(name),), prepare=True)
        if wait_ms is None:
            cursors["locks"] = execute(statements.TRY_LOCKS, locks, prepare=True)
        else:
            cursors["locks"] = execute(statements.TRY_LOCKS_THEN_WAIT, (f"{wait_ms}ms", *locks), prepare=True)
        if footprint.writes:
            lock_heads = statements.TRY_HEADS if wait_ms is None else statements.WAIT_HEADS
            cursors["writes"] = execute(lock_heads, columns(footprint.writes, 2), prepare=True)
        if footprint.shared:
            cursors["reads"] = execute(statements.SHARE_HEADS, columns(footprint.shared, 2), prepare=True)
        if footprint.streams:
            cursors["seen"] = execute(statements.SEE_STREAMS, have, prepare=True)
        if footprint.records:
            cursors["records"] = execute(statements.RECORDS, columns(footprint.records, 4), prepare=True)
        if footprint.streams:
            tails = FencedRecorder.over(connection).select_tails(have)
        rows = [
            (table, ids, execute(statements.load_rows(table), columns(ids, 2), prepare=True))
            for table, ids in footprint.rows.items()
        ]
        cold_rows = [
            (table, execute(statements.load_light_rows(table), columns(wanted, 5), prepare=True))
            for table, wanted in footprint.cold_rows.items()
        ]
        if footprint.tables:
            cursors["tables"] = execute(statements.TABLES, (array(footprint.tables),), prepare=True)
        answer = execute(*last, prepare=True)
    loaded = _collect(cursors, tails)
    loaded.told = answer.fetchone() or ()
    locked = [(n, shared) for n, shared, *_, ok in cursors["locks"] if ok]
    loaded.gates = {*footprint.exclusive, *(gates[n] for n, shared in locked if shared)}
    if names.READ_MODELS not in loaded.gates or not footprint.cache.keeps_to(dict(cursors.get("tables", ()))):
        return Loaded(told=loaded.told)
    loaded.names = {wanted[n] for n, shared in locked if not shared}
    for table, ids, cursor in rows:
        loaded.rows.update({(table.name, *name): None for name in ids})
        for (text,) in cursor:
            row = msgspec.json.decode(text, type=table.row)
            loaded.rows[(table.name, row.project_id, row.id)] = row
    for table, cursor in cold_rows:
        for (text,) in cursor:
            row = msgspec.json.decode(text, type=table.row)
            loaded.rows[(table.name, row.project_id, row.id)] = row
            loaded.read[(row.project_id, row.id)] = loaded.read.get((row.project_id, row.id), 0) + len(text)
    return loaded


def _collect(cursors: Mapping[str, Iterable[tuple[Any, ...]]], tails: Iterable[StreamEvent]) -> Loaded:
    """Sort what came back about streams and records."""
    loaded = Loaded()
    for part in ("writes", "reads"):
        for p, s, revision, chain, counted, documents in cursors.get(part, ()):
            loaded.heads[(p, s)] = StreamHead(revision, bytes(chain), counted, documents)
    for p, s, revision, light, *snapshot in cursors.get("seen", ()):
        loaded.seen[(p, s)] = revision
        if not light:
            loaded.heavy.add((p, s))
        elif snapshot[0] is not None:
            stored = StoredSnapshot(p, s, *snapshot)
            loaded.snapshots[(p, s)] = stored
            loaded.read[(p, s)] = len(stored.payload)
    for p, principal, operation, key, request_hash, command_id, status, body, headers in cursors.get("records", ()):
        loaded.records[(p, principal, operation, key)] = IdempotencyRecord(
            request_hash, command_id, status, bytes(body or b""), msgspec.json.decode(headers or "{}")
        )
    for event in tails:
        name = event.project_id, event.stream_id
        loaded.tails.setdefault(name, []).append(event)
        loaded.read[name] = loaded.read.get(name, 0) + len(event.payload or "")
    return loaded


def fold_streams(
    registry: Registry, cache: StateCache, streams: Iterable[Stream], loaded: Loaded
) -> tuple[dict[StreamName, Working], dict[StreamName, StreamFault]]:
    """Bring streams to their locked heads; beside them the faults of those that cannot be."""
    folded: dict[StreamName, Working] = {}
    faults: dict[StreamName, StreamFault] = {}
    for stream in streams:
        if stream.name in folded or stream.name in faults:
            continue
        try:
            folded[stream.name] = fold_stream(registry, cache, stream, loaded)
        except StreamFault as found:
            faults[stream.name] = found
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one stream must not fail its neighbours
            faults[stream.name] = StreamDamaged(stream, repr(error))
    for fault in faults.values():
        log.error(fault.code, stream=str(fault))
    return folded, faults


def fold_stream(registry: Registry, cache: StateCache, stream: Stream, loaded: Loaded) -> Working:
    """Bring a stream to its locked head: from the cache, a snapshot or the beginning, plus the tail.

    Raises StreamIsNewer, StreamDamaged when its events do not lead there, and whatever reading one of them raises; of a
    heavy stream the fault with which it could not be loaded.
    """
    machine, name = stream.machine, stream.name
    if name not in loaded.heads:
        # Absent. A stream that is only read may be created between two statements: what came after that is not ours.
        return Working(stream, 0, machine.initial, {})
    if name in loaded.heavy:
        raise cache.faults.pop(name)
    known, tail = cache.get(name), loaded.tails.get(name, ())
    head = loaded.heads[name]
    read, documents = loaded.read.get(name, 0), read_documents(head.documents)
    if known is not None:
        revision, state, rows = fold_tail(stream, known.revision, known.state, tail, registry, known.rows)
    else:
        snapshot = loaded.snapshots.get(name)
        state = machine.initial if snapshot is None else snapshot.decoded(machine.state_type)
        revision, state, _ = fold_tail(stream, 0 if snapshot is None else snapshot.revision, state, tail)
        # Rows were read whole, under the same lock.
        rows = {p.name: loaded.rows.get((p.name, *name)) for p in registry.inline.get(machine.kind, ())}
    check_head(stream, revision, head.revision)
    return Working(stream, revision, state, rows, read, documents)


def fold_tail(
    stream: Stream,
    revision: int,
    state: Any,
    tail: Iterable[StreamEvent],
    registry: Registry | None = None,
    rows: Mapping[str, Any] = _NO_ROWS,
) -> tuple[int, Any, Mapping[str, Any]]:
    """Fold the events that follow `revision` into the state, and into the rows when a registry is given.

    An erased event has left nothing to fold. Raises StreamIsNewer at an event of a later release (G-149), StreamDamaged
    for a gap, and whatever reading an event raises.
    """
    evolve, kind = stream.machine.evolve, stream.machine.kind
    for stored in tail:
        if stored.revision != revision + 1:
            raise StreamDamaged(stream, f"event {stored.revision} follows event {revision}")
        revision = stored.revision
        if stored.payload is None:
            continue
        try:
            recorded = MAPPER.to_domain_event(stored)
        except UnknownTopic as unknown:
            raise StreamIsNewer(stream, unknown.topic) from None
        state = evolve(state, recorded.event)
        if registry is not None:
            rows = fold_rows(registry, kind, rows, recorded)
    return revision, state, rows


def check_head(stream: Stream, revision: int, head: int) -> None:
    """Raise StreamDamaged unless the events of a stream lead to its head."""
    if revision != head:
        raise StreamDamaged(stream, f"its events end at {revision}, its head says {head}")


# The session of a thread that writes: opened when it is needed, and opened again after it was lost.

CACHE_BYTES = 8 * MEBIBYTE
RECONNECT_PAUSE = 0.05  # seconds; nobody is refused meanwhile: what waits is parked until its deadline


class WritingSession:
    """Keeps one connection. Belongs to one thread.

    `first` is a statement that comes first on each connection; a transaction is ended by the server after
    `transaction_timeout_ms` (milliseconds, where the server has such a setting). `cache` is emptied when a transaction
    fails or the connection is lost.
    """

    def __init__(
        self,
        conninfo: str,
        application: str,
        *,
        first: Statement = "",
        transaction_timeout_ms: int = 2000,
        cache: StateCache | None = None,
    ) -> None:
        self.application = application
        self.cache = StateCache(max_bytes=CACHE_BYTES) if cache is None else cache
        self.connection: Connection | None = None
        self.pid = 0  # of the last connection
        self._conninfo = conninfo
        self._first = first
        self._transaction_timeout_ms = transaction_timeout_ms

    def open(self) -> Connection:
        """The connection, opened if there is none.

        Raises psycopg.OperationalError when the database is not there, after RECONNECT_PAUSE; there is no connection
        then.
        """
        if self.connection is None:
            try:
                connection = connect(
                    self._conninfo,
                    application=self.application,
                    transaction_timeout_ms=self._transaction_timeout_ms,
                )
            except psycopg.Error:
                time.sleep(RECONNECT_PAUSE)
                raise
            self.connection = connection
            self.pid = connection.info.backend_pid
            if self._first:
                connection.execute(self._first)
        return self.connection

    def rollback(self) -> None:
        """End a transaction that failed; a connection that cannot is closed."""
        self.cache.clear()
        try:
            if self.connection is not None:
                self.connection.execute("rollback")
        except psycopg.Error:
            self.close()

    def close(self) -> None:
        """Close the connection, and forget it."""
        self.cache.clear()
        self.rest()

    def rest(self) -> None:
        """Close the connection, between two transactions, because there is nothing to do. The cache stays."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()
