"""The second pipeline of a round: everything a batch did, written set-wise, and COMMIT."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from projections.kernel import Table
from service.eventstore.connect.connection import COMMITTED, Connection, is_listed
from service.eventstore.connect.hosts import REPLICATED
from service.eventstore.connect.pipeline import Value, columns
from service.eventstore.declare.commands import IdempotencyRecord
from service.eventstore.declare.faults import CommitNotConfirmed
from service.eventstore.read import statements
from service.eventstore.read.recorder import FencedRecorder, LockedHeads
from service.eventstore.read.stored import (
    CHAIN_START,
    MAPPER,
    EventEnvelope,
    LogEvent,
    StoredSnapshot,
    hash_chain,
    hash_leaf,
    hash_payload,
    microseconds,
)
from service.eventstore.state.cache import NOTHING, Entry, KnownStream, StateCache, StreamMark, StreamName
from service.eventstore.state.loading import Loaded, StreamHead
from service.eventstore.state.unit import Batch, Working
from service.ids import new_id

SALT_BYTES = 16
SNAPSHOT_EVENTS = 100
"""Events after which a stream gets a new snapshot (G-140)."""
SNAPSHOT_BYTES = 256 * 1024
"""Bytes of payload after which it does."""
_encode = msgspec.json.Encoder().encode
_NO_HEAD = StreamHead(0, CHAIN_START)


class Accepted(NamedTuple):
    """A command that goes into the log, and its idempotency record."""

    entry: Entry
    record: IdempotencyRecord


class _RecordRow(msgspec.Struct, frozen=True):
    """An idempotency record as its insert takes it."""

    project_id: str
    principal: str
    operation: str
    key: str
    fingerprint: str
    command_id: str
    client_key: bool
    status: int | None
    body: str | None
    headers: Mapping[str, str]


class _Written(NamedTuple):
    """Events laid out, and for each stream that they belong to its new chain and the bytes of payload they add."""

    rows: list[LogEvent]
    chains: dict[StreamName, bytes]
    added: dict[StreamName, int]


def write(
    connection: Connection,
    batch: Batch,
    loaded: Loaded,
    accepted: Sequence[Accepted],
    cache: StateCache,
    write_more: Callable[[Connection, Batch], None],
) -> None:
    """Write a batch and commit it; then remember its streams. Raises psycopg.Error and CommitNotConfirmed."""
    events, chains, added = _assemble(batch, loaded)
    changed = {name: batch.streams[name] for name in chains}
    marks = {name: _mark(working, loaded.heads.get(name), added[name]) for name, working in changed.items()}
    snapshots = _snapshots_due(changed, marks, loaded, cache)
    marks.update({(s.project_id, s.stream_id): StreamMark(s.revision, s.bytes) for s in snapshots})
    moved, made = _heads(batch, loaded, marks, chains)
    records = {item.entry.record: _record(item) for item in accepted}  # Of twins with pending answers, the last one.
    new_records = [record for name, record in records.items() if name not in loaded.records]
    settled = [record for name, record in records.items() if name in loaded.records]
    execute = connection.execute
    recorder = FencedRecorder.over(connection)
    with connection.pipeline():
        recorder.insert_events(events, fence=LockedHeads(batch.moment, moved, made))
        _write_rows(connection, batch)
        recorder.snapshots.insert_events(snapshots)
        if new_records:
            execute(statements.INSERT_RECORDS, (batch.moment, _encode(new_records).decode()), prepare=True)
        if settled:
            execute(statements.SETTLE_RECORDS, (_encode(settled).decode(),), prepare=True)
        write_more(connection, batch)
        commit = execute(statements.COMMIT, prepare=True)
    if commit.statusmessage != "COMMIT":
        raise CommitNotConfirmed(commit.statusmessage)
    if events:
        COMMITTED.ring()
    stored = {(s.project_id, s.stream_id): marks[s.project_id, s.stream_id] for s in snapshots}
    _remember(batch, loaded, cache, chains, added, marks, stored)


def confirm(connection: Connection) -> None:
    """End a transaction of reads. With a list of hosts, a standby has all of their rows after this (G-201).

    A primary may show commits without a copy after its restart, and a promotion then drops them. A later commit of the
    same session is on the same timeline, so a standby with it has them too. Raises psycopg.Error and
    CommitNotConfirmed.
    """
    if not is_listed(connection):
        connection.execute("rollback")
        return
    with connection.pipeline():
        connection.execute(REPLICATED, prepare=True)
        commit = connection.execute(statements.COMMIT, prepare=True)
    if commit.statusmessage != "COMMIT":
        raise CommitNotConfirmed(commit.statusmessage)


def _assemble(batch: Batch, loaded: Loaded) -> _Written:
    """Hash and lay out the accepted events."""
    written = _Written([], {}, {})
    at = microseconds(batch.moment)
    salts = os.urandom(SALT_BYTES * len(batch.events))
    for place, new in enumerate(batch.events):
        name = new.stream.name
        stored = MAPPER.to_stored_event(new.recorded)
        assert stored.payload is not None
        payload = stored.payload.encode()
        salt = salts[SALT_BYTES * place : SALT_BYTES * (place + 1)]
        payload_hash = hash_payload(salt, payload)
        origin, kind = new.command.origin, new.stream.machine.kind
        names = (
            new_id("event"),
            new.command_id,
            origin.actor_kind,
            origin.actor_id,
            origin.request_id,
            origin.correlation_id or origin.request_id,
            origin.causation_id,
        )
        at_place = *name, stored.revision, kind, stored.topic
        leaf = hash_leaf(EventEnvelope(*at_place, *names, at, payload_hash.hex()))
        previous = written.chains.get(name) or loaded.heads.get(name, _NO_HEAD).chain
        chain = hash_chain(previous, leaf)
        written.chains[name] = chain
        written.added[name] = written.added.get(name, 0) + len(payload)
        hashes = salt, payload_hash, leaf, chain
        written.rows.append(LogEvent._make((None, *at_place, stored.payload, *names, batch.moment, *hashes)))
    return written


def _mark(working: Working, head: StreamHead | None, added: int) -> StreamMark:
    """Where a stream stands after this batch; what its head did not count stays uncounted."""
    before = 0 if head is None else head.bytes
    return StreamMark(working.revision, -1 if before < 0 else before + added)


def _heads(
    batch: Batch, loaded: Loaded, marks: Mapping[StreamName, StreamMark], chains: Mapping[StreamName, bytes]
) -> tuple[list[tuple[Value, ...]], list[tuple[Value, ...]]]:
    """Lay out the heads as their update and their insert take them; no documents: an empty text."""
    updates: list[tuple[Value, ...]] = []
    inserts: list[tuple[Value, ...]] = []
    written = {new.stream.name for new in batch.events if new.recorded.event.DOCUMENT}
    for name, mark in marks.items():
        working, head = batch.streams[name], loaded.heads.get(name)
        documents = _encode(working.documents).decode() if name in written else ""
        stand = (mark.revision, chains[name], mark.bytes, documents)
        if head is None:
            inserts.append((*name, working.stream.machine.kind, *stand))
        else:
            updates.append((*name, head.revision, *stand))
    return updates, inserts


def outgrown(mark: StreamMark, snapshot: StreamMark) -> bool:
    """Whether a stream has grown too far from its snapshot, or nobody knows how far (G-140)."""
    return (
        mark.bytes < 0
        or snapshot.bytes < 0
        or mark.revision - snapshot.revision >= SNAPSHOT_EVENTS
        or mark.bytes - snapshot.bytes >= SNAPSHOT_BYTES
    )


def _snapshots_due(
    changed: Mapping[StreamName, Working], marks: Mapping[StreamName, StreamMark], loaded: Loaded, cache: StateCache
) -> list[StoredSnapshot]:
    """The snapshots of streams that have outgrown theirs; one whose bytes were not counted begins to count."""
    due = []
    for name, working in changed.items():
        mark = marks[name]
        if outgrown(mark, _last_snapshot(name, loaded, cache.get(name))):
            state = _encode(working.state)
            version = working.stream.machine.snapshot_version
            counted = max(0, mark.bytes)
            due.append(StoredSnapshot(*name, mark.revision, version, state.decode(), counted, len(state)))
    return due


def _last_snapshot(name: StreamName, loaded: Loaded, known: KnownStream | None) -> StreamMark:
    if known is not None:
        return known.snapshot
    stored = loaded.snapshots.get(name)
    return StreamMark() if stored is None else StreamMark(stored.revision, stored.bytes)


def _write_rows(connection: Connection, batch: Batch) -> None:
    upserts: dict[Table[Any], list[Any]] = {}
    deletes: dict[Table[Any], list[StreamName]] = {}
    for (_, project_id, row_id), (table, row) in batch.written_rows.items():
        if row is None:
            deletes.setdefault(table, []).append((project_id, row_id))
        else:
            upserts.setdefault(table, []).append(row)
    for table, rows in upserts.items():
        connection.execute(statements.upsert_rows(table), (_encode(rows).decode(),), prepare=True)
    for table, row_names in deletes.items():
        connection.execute(statements.delete_rows(table), columns(row_names, 2), prepare=True)


def _record(accepted: Accepted) -> _RecordRow:
    """Lay out an idempotency record; one without a status binds key and request only."""
    entry, record = accepted
    return _RecordRow(
        *entry.record,
        fingerprint=record.request_hash,
        command_id=record.command_id,
        client_key=entry.command.key is not None,
        status=record.status,
        body=None if record.status is None else record.body.decode(),
        headers=record.headers,
    )


def _remember(
    batch: Batch,
    loaded: Loaded,
    cache: StateCache,
    chains: Mapping[StreamName, bytes],
    added: Mapping[StreamName, int],
    marks: Mapping[StreamName, StreamMark],
    snapshots: Mapping[StreamName, StreamMark],
) -> None:
    """Fill the cache from a committed batch; what was only read, and is kept as it stands, stays as it is."""
    known = {}
    for name, working in batch.streams.items():
        if name not in chains and name not in loaded.heads:
            continue  # Still absent.
        before = cache.get(name)
        if before is not None and name not in chains and _stands(working, loaded.heads[name], before, cache.peek(name)):
            continue
        weight = NOTHING if before is None else before.weight
        rows = dict(working.rows)
        known[name] = KnownStream(
            mark=marks[name] if name in marks else StreamMark(working.revision, loaded.heads[name].bytes),
            chain=chains.get(name) or loaded.heads[name].chain,
            state=working.state,
            rows=rows,
            weight=weight.grown(working.read + added.get(name, 0), working.state, rows),
            snapshot=snapshots.get(name) or _last_snapshot(name, loaded, before),
        )
    for name, entry in known.items():
        cache.put(name, entry)


def _stands(working: Working, head: StreamHead, before: KnownStream, kept: KnownStream | None) -> bool:
    """Whether a stream that was not written is what the cache keeps of it (what it only lends, it gives up)."""
    at = (head.revision, head.bytes, head.chain)
    return kept is before and working.state is before.state and (*before.mark, before.chain) == at
