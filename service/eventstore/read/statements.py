"""The statements of one round, in their order (see round.py for why this order), and those that read events."""

from __future__ import annotations

from functools import cache
from typing import Any

from projections.kernel import Table
from service.sql import Query, load_query

LIGHT = 32 * 1024
"""Bytes (snapshot and payload) that a round loads of one stream at most; a heavier one is loaded before it begins."""
LIGHT_EVENTS = 200
"""Events that a round loads of one stream at most."""

BEGIN = load_query("eventstore/statements", "begin")
COMMIT = load_query("eventstore/statements", "commit")
LOCK_TIMEOUT = load_query("eventstore/statements", "lock_timeout")
WAIT_GATE = load_query("eventstore/statements", "wait_gate")
TRY_LOCKS = load_query("eventstore/statements", "try_locks")
TRY_LOCKS_THEN_WAIT = load_query("eventstore/statements", "try_locks_then_wait")
WAIT_HEADS = load_query("eventstore/statements", "wait_heads")
TRY_HEADS = load_query("eventstore/statements", "try_heads")
SHARE_HEADS = load_query("eventstore/statements", "share_heads")
SEE_STREAMS = load_query("eventstore/statements", "see_streams").filled(bytes=LIGHT, events=LIGHT_EVENTS)
RECORDS = load_query("eventstore/statements", "records")
TAILS = load_query("eventstore/statements", "tails").filled(bytes=LIGHT, events=LIGHT_EVENTS)
STREAM = load_query("eventstore/statements", "stream")
ANY_STREAM = load_query("eventstore/statements", "any_stream")
ANY_STREAM_BACK = load_query("eventstore/statements", "any_stream_back")
HISTORY = load_query("eventstore/statements", "history")
STREAMS = load_query("eventstore/statements", "streams")
PLACED_STREAM = load_query("eventstore/statements", "placed_stream")
ALL_EVENTS = load_query("eventstore/statements", "all_events")
LOG = load_query("eventstore/statements", "log")
LOG_OF_TOPICS = load_query("eventstore/statements", "log_of_topics")
LOG_SIZE = load_query("eventstore", "log_size")
SNAPSHOT = load_query("eventstore/statements", "snapshot")
KEEP_POSITION = load_query("eventstore/statements", "keep_position")
POSITION = load_query("eventstore/statements", "position")
TAKE_POSITION = load_query("eventstore/statements", "take_position")
TABLES = load_query("eventstore/statements", "tables")
MOMENT = load_query("eventstore/statements", "moment")
INSERT_EVENTS = load_query("eventstore/statements", "insert_events")
UPDATE_HEADS = load_query("eventstore/statements", "update_heads")
INSERT_HEADS = load_query("eventstore/statements", "insert_heads")
UPSERT_SNAPSHOTS = load_query("eventstore/statements", "upsert_snapshots")
KEEP_SNAPSHOT = load_query("eventstore/statements", "keep_snapshot")
INSERT_RECORDS = load_query("eventstore/statements", "insert_records")
SETTLE_RECORDS = load_query("eventstore/statements", "settle_records")
GATE_HOLDERS = load_query("eventstore/statements", "gate_holders")
TERMINATE = load_query("eventstore/statements", "terminate")
_ROWS = load_query("eventstore/statements", "rows")
_LIGHT_ROWS = load_query("eventstore/statements", "light_rows")
_DELETE_ROWS = load_query("eventstore/statements", "delete_rows")


@cache
def load_rows(table: Table[Any]) -> Query:
    """Select the rows of a table by (project_id, id), each as JSON."""
    assert table.key == ("project_id", "id")
    return _ROWS.filled(table=table.name)


@cache
def load_light_rows(table: Table[Any]) -> Query:
    """Select the rows of streams that are light enough to be loaded, each as JSON."""
    assert table.key == ("project_id", "id")
    return _LIGHT_ROWS.filled(table=table.name, bytes=LIGHT, events=LIGHT_EVENTS)


@cache
def upsert_rows(table: Table[Any]) -> str:
    """Upsert rows given as one JSON array."""
    names = ", ".join(table.columns)
    changes = ", ".join(f"{c} = excluded.{c}" for c in table.columns if c not in table.key)
    guard = f" where {table.name}.revision < excluded.revision" if "revision" in table.columns else ""
    action = f"do update set {changes}{guard}" if changes else "do nothing"
    return (
        f"insert into {table.name} ({names}) "  # noqa: S608 - names come from declarations
        f"select {names} from jsonb_populate_recordset(null::{table.name}, %s::jsonb) "
        f"on conflict ({', '.join(table.key)}) {action}"
    )


@cache
def delete_rows(table: Table[Any]) -> Query:
    """Delete rows by (project_id, id)."""
    return _DELETE_ROWS.filled(table=table.name)
