"""What a flush holds and knows before it decides: its locks, its clock, and the projects of its senders.

A flush that moves no case takes one statement for it; one that may takes the way of a command loop's round. Those that
can be foreseen whole are not locked here but counted (see `counting`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from service.eventstore.connect.connection import Connection
from service.eventstore.connect.pipeline import array
from service.eventstore.declare import names
from service.eventstore.declare.commands import IdempotencyRecord
from service.eventstore.state.loading import Footprint, Loaded, StreamHead, lock_and_load
from service.ingest.flush import statements

_encode = msgspec.json.Encoder().encode


class Project(NamedTuple):
    """A sender's project as it stands under its gate; `account_id` is its first owner (G-071).

    `public_dsn_hash` is None without a public DSN.
    """

    dsn_hash: str
    status: str
    account_id: str
    public_dsn_hash: str | None = None

    def knows(self, dsn_hash: str) -> bool:
        """Whether a hash is that of one of its DSNs."""
        return dsn_hash in {self.dsn_hash, self.public_dsn_hash}

    @property
    def active(self) -> bool:
        """Whether it takes records."""
        return self.status == "active"


class Locked(NamedTuple):
    """What was got: locks and reads, the clock of the flush, and the senders' projects."""

    loaded: Loaded
    moment: datetime
    projects: Mapping[str, Project]


class _Sender(NamedTuple):
    project_id: str
    dsn_hash: str
    status: str
    account_id: str


class _Stored(NamedTuple):
    project_id: str
    principal: str
    operation: str
    key: str
    fingerprint: str
    command_id: str
    status: int
    body: str


class _Got(msgspec.Struct):
    """The answer of `ingest_lock`."""

    moment: datetime
    gates: list[int] | None
    names: list[int] | None
    heads: list[tuple[str, str, int]] | None
    records: list[_Stored] | None
    projects: list[_Sender] | None
    public: list[tuple[str, str]] | None


_got = msgspec.json.Decoder(_Got).decode
_senders = msgspec.json.Decoder(list[_Sender]).decode
_public = msgspec.json.Decoder(list[tuple[str, str]]).decode


def lock(connection: Connection, footprint: Footprint, project_ids: Sequence[str]) -> Locked:
    """Begin the transaction and take what the footprint names, as far as it is free. Raises psycopg.Error."""
    if footprint.writes or footprint.reads:
        return _lock_to_move(connection, footprint, project_ids)
    return _lock_to_count(connection, footprint, project_ids)


def _lock_to_move(connection: Connection, footprint: Footprint, project_ids: Sequence[str]) -> Locked:
    loaded = lock_and_load(connection, footprint, None, (statements.FACTS, (array(project_ids),) * 2))
    moment, found, public = loaded.told
    return Locked(loaded, moment, _by_id(_senders(found) if found else (), _public(public) if public else ()))


def _lock_to_count(connection: Connection, footprint: Footprint, project_ids: Sequence[str]) -> Locked:
    gates = {names.lock_number(name): name for name in footprint.gates}
    wanted = {names.lock_number(name): name for name in footprint.names}
    records = [dict(zip(_RECORD, record, strict=True)) for record in footprint.records]
    connection.execute("begin", prepare=True)
    row = connection.execute(
        statements.LOCK,
        (
            array(gates),
            array(wanted),
            array(project_id for project_id, _ in footprint.shared),
            array(stream_id for _, stream_id in footprint.shared),
            _encode(records).decode() if records else None,
            array(project_ids),
        ),
        prepare=True,
    ).fetchone()
    assert row is not None
    got = _got(row[0])
    loaded = Loaded()
    loaded.gates = {gates[number] for number in got.gates or ()}
    loaded.names = {wanted[number] for number in got.names or ()}
    loaded.heads = {
        (project_id, stream_id): StreamHead(revision) for project_id, stream_id, revision in got.heads or ()
    }
    for *name, request_hash, command_id, status, body in got.records or ():
        project_id, principal, operation, key = name
        loaded.records[project_id, principal, operation, key] = IdempotencyRecord(
            request_hash, command_id, status, body.encode(), {}
        )
    return Locked(loaded, got.moment, _by_id(got.projects or (), got.public or ()))


_RECORD = ("project_id", "principal", "operation", "key")


def _by_id(senders: Iterable[_Sender], public: Iterable[tuple[str, str]]) -> dict[str, Project]:
    hashes = dict(public)
    return {
        sender.project_id: Project(sender.dsn_hash, sender.status, sender.account_id, hashes.get(sender.project_id))
        for sender in senders
    }
