"""Events written past the store, with every hash as it has to be: what no command of a release here would record.

A forger who knows the format can do the same; so can tests of history that no machine makes.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

import msgspec
import psycopg

from service.eventstore.read.stored import (
    CHAIN_START,
    EventEnvelope,
    canonical,
    hash_chain,
    hash_leaf,
    hash_payload,
    microseconds,
)
from service.ids import new_id

PURGING_BEGAN = "deletion.purging_began.v1"

_INSERT_EVENT = (
    "insert into events (project_id, stream_id, revision, kind, topic, payload, event_id, command_id, actor_kind, "
    "actor_id, request_id, correlation_id, causation_id, recorded_at, salt, payload_hash, leaf, chain) "
    "values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) returning seq"
)
_MOVE_HEAD = (
    "insert into stream_heads (project_id, stream_id, kind, revision, chain) values (%s, %s, %s, %s, %s) "
    "on conflict (project_id, stream_id) do update set revision = excluded.revision, chain = excluded.chain"
)


def append(sql: psycopg.Connection[Any], scope: str, stream_id: str, kind: str, topic: str, payload: Any) -> None:
    """Append one event, with head and place in the queue, in one transaction."""
    with sql.transaction():
        head = sql.execute(
            "select revision, chain from stream_heads where project_id = %s and stream_id = %s", (scope, stream_id)
        ).fetchone()
        before, chain = head or (0, CHAIN_START)
        salt, at, encoded = os.urandom(16), datetime.now(UTC), canonical(payload)
        payload_hash = hash_payload(salt, encoded)
        names = (scope, stream_id, before + 1, kind, topic)
        origin = (new_id("event"), new_id("cmd"), "system", "service", "", "", "")
        leaf = hash_leaf(EventEnvelope(*names, *origin, microseconds(at), payload_hash.hex()))
        chain = hash_chain(chain, leaf)
        stored = (*names, msgspec.json.format(encoded).decode(), *origin, at, salt, payload_hash, leaf, chain)
        [[seq]] = sql.execute(_INSERT_EVENT, stored).fetchall()
        sql.execute("insert into unsequenced (seq) values (%s)", (seq,))
        sql.execute(_MOVE_HEAD, (scope, stream_id, kind, before + 1, chain))


def begin_purging(sql: psycopg.Connection[Any], scope: str, deletion_id: str = "del_1") -> None:
    """Record the erasure event of a scope, as the deletion does from which on its payloads may go."""
    append(sql, deletion_id, deletion_id, "del", PURGING_BEGAN, {"scope_id": scope})


def erase(sql: psycopg.Connection[Any], scope: str, deletion_id: str = "del_1", most: int = 1_000_000) -> int:
    """Erase payloads of a scope as a deletion does; returns how many."""
    query = (
        "select erased from erase_payloads(erased_scope => %s, deletion_id => %s, after_stream => '', "
        "after_revision => 0, max_rows => %s)"
    )
    [[erased]] = sql.execute(query, (scope, deletion_id, most)).fetchall()
    return int(erased)
