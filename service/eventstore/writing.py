"""The second pipeline of a round: everything a batch did, written set-wise, and COMMIT."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from projections.kernel.projection import Table
from service.eventstore import statements
from service.eventstore.arrays import columns
from service.eventstore.cache import Known, StateCache, StreamName
from service.eventstore.codec import (
    CHAIN_START,
    Envelope,
    canonical,
    hash_chain,
    hash_leaf,
    hash_payload,
    microseconds,
)
from service.eventstore.connection import Connection
from service.eventstore.entry import Entry
from service.eventstore.faults import CommitNotConfirmed
from service.eventstore.idempotency import Record
from service.eventstore.loading import Loaded
from service.eventstore.unit import Batch, NewEvent, Working
from service.ids import new_id

SNAPSHOT_EVERY = 100  # events after which a long stream gets a new snapshot
_encode = msgspec.json.Encoder().encode


class Accepted(NamedTuple):
    """A command that goes into the log, and its idempotency record."""

    entry: Entry
    record: Record


class _EventRow(msgspec.Struct, frozen=True):
    """An event as its insert takes it; hashes and salt in hex."""

    project_id: str
    stream_id: str
    revision: int
    kind: str
    topic: str
    payload: msgspec.Raw
    event_id: str
    command_id: str
    actor_kind: str
    actor_id: str
    request_id: str
    correlation_id: str
    causation_id: str
    salt: str
    payload_hash: str
    leaf: str
    chain: str


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
    rows: list[_EventRow]
    chains: dict[StreamName, bytes]
    weights: dict[StreamName, int]


def write(
    connection: Connection,
    batch: Batch,
    loaded: Loaded,
    accepted: Sequence[Accepted],
    cache: StateCache,
    write_more: Callable[[Connection, Batch], None],
) -> None:
    """Write a batch and commit it; then remember its streams. Raises psycopg.Error and CommitNotConfirmed."""
    events, chains, weights = _assemble(batch, loaded)
    changed = {name: batch.streams[name] for name in chains}
    updates = [(*n, loaded.heads[n][0], w.revision, chains[n]) for n, w in changed.items() if n in loaded.heads]
    inserts = [(*n, w.stream.machine.kind, w.revision, chains[n]) for n, w in changed.items() if n not in loaded.heads]
    snapshots = _snapshots_due(changed, loaded, cache)
    records = {item.entry.record: _record(item) for item in accepted}  # Of twins with pending answers, the last one.
    new_records = [record for name, record in records.items() if name not in loaded.records]
    settled = [record for name, record in records.items() if name in loaded.records]
    execute = connection.execute
    heads = None
    with connection.pipeline():
        if events:
            execute(statements.INSERT_EVENTS, (batch.moment, _encode(events).decode()), prepare=True)
        if updates:
            heads = execute(statements.UPDATE_HEADS, columns(updates, 5), prepare=True)
        if inserts:
            execute(statements.INSERT_HEADS, columns(inserts, 5), prepare=True)
        _write_rows(connection, batch)
        if snapshots:
            execute(statements.UPSERT_SNAPSHOTS, columns(snapshots, 5), prepare=True)
        if new_records:
            execute(statements.INSERT_RECORDS, (batch.moment, _encode(new_records).decode()), prepare=True)
        if settled:
            execute(statements.SETTLE_RECORDS, (_encode(settled).decode(),), prepare=True)
        write_more(connection, batch)
        commit = execute("commit")
    assert heads is None or heads.rowcount == len(updates), "a locked head moved"
    if commit.statusmessage != "COMMIT":
        raise CommitNotConfirmed(commit.statusmessage)
    _remember(batch, loaded, cache, chains, weights, {(p, s): revision for p, s, revision, *_ in snapshots})


def _assemble(batch: Batch, loaded: Loaded) -> _Written:
    """Hash and lay out the accepted events; returns the rows, the new chain and the added weight per stream."""
    written = _Written([], {}, {})
    at = microseconds(batch.moment)
    for new in batch.events:
        name = new.stream.name
        payload = canonical(new.event)
        salt = os.urandom(16)
        payload_hash = hash_payload(salt, payload)
        envelope = _envelope(new, at, payload_hash)
        leaf = hash_leaf(envelope)
        previous = written.chains.get(name) or loaded.heads.get(name, (0, CHAIN_START))[1]
        chain = hash_chain(previous, leaf)
        written.chains[name] = chain
        written.weights[name] = written.weights.get(name, 0) + len(payload)
        written.rows.append(
            _EventRow(
                envelope.project_id,
                envelope.stream_id,
                envelope.revision,
                envelope.kind,
                envelope.topic,
                msgspec.Raw(payload),
                envelope.event_id,
                envelope.command_id,
                envelope.actor_kind,
                envelope.actor_id,
                envelope.request_id,
                envelope.correlation_id,
                envelope.causation_id,
                salt.hex(),
                envelope.payload_hash,
                leaf.hex(),
                chain.hex(),
            )
        )
    return written


def _envelope(new: NewEvent, at: int, payload_hash: bytes) -> Envelope:
    origin = new.command.origin
    return Envelope(
        project_id=new.stream.project_id,
        stream_id=new.stream.id,
        revision=new.revision,
        kind=new.stream.machine.kind,
        topic=new.event.TOPIC,
        event_id=new_id("event"),
        command_id=new.command_id,
        actor_kind=origin.actor_kind,
        actor_id=origin.actor_id,
        request_id=origin.request_id,
        correlation_id=origin.correlation_id or origin.request_id,
        causation_id=origin.causation_id,
        recorded_at=at,
        payload_hash=payload_hash.hex(),
    )


def _snapshots_due(
    changed: Mapping[StreamName, Working], loaded: Loaded, cache: StateCache
) -> list[tuple[str, str, int, int, str]]:
    due = []
    for name, working in changed.items():
        machine = working.stream.machine
        if machine.snapshots and working.revision - _last_snapshot(name, loaded, cache) >= SNAPSHOT_EVERY:
            due.append((*name, working.revision, machine.version, _encode(working.state).decode()))
    return due


def _last_snapshot(name: StreamName, loaded: Loaded, cache: StateCache) -> int:
    known = cache.get(name)
    return known.snapshot_revision if known else loaded.snapshots.get(name, (0, ""))[0]


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
    weights: Mapping[StreamName, int],
    snapshots: Mapping[StreamName, int],
) -> None:
    """Fill the cache from a committed batch."""
    known = {}
    for name, working in batch.streams.items():
        if name not in chains and name not in loaded.heads:
            continue  # Still absent.
        before = cache.get(name)
        known[name] = Known(
            revision=working.revision,
            chain=chains.get(name) or loaded.heads[name][1],
            state=working.state,
            rows=dict(working.rows),
            size=(before.size if before else 1024) + weights.get(name, 0),
            snapshot_revision=snapshots.get(name) or _last_snapshot(name, loaded, cache),
        )
    for name, entry in known.items():
        cache.put(name, entry)
