"""The statements of one round, in their order (see round.py for why this order), and those that read events."""

from __future__ import annotations

from functools import cache
from typing import Any

from projections.kernel import Table
from service.eventstore.connect.facts import NOW
from service.eventstore.read.stored import EVENT_COLUMNS, STREAM_COLUMNS

# Prepared like all others: a statement that is not takes a cursor of its own, and is parsed in each round.
BEGIN = "begin"
COMMIT = "commit"

LOCK_TIMEOUT = "select set_config('lock_timeout', %s, true)"

WAIT_GATE = "select pg_advisory_xact_lock(%s::bigint)"
# Gates, then names, in the order of the arrays, which a scan of them keeps. A waiting exclusive lock already makes a
# shared one false: nothing new starts while a fence waits. The bound of the one statement that waits is set on the way.
_TRY_LOCKS = (
    "case when l.shared then pg_try_advisory_xact_lock_shared(l.n) else pg_try_advisory_xact_lock(l.n) end "
    "from unnest(%s::bigint[], %s::bool[]) l(n, shared)"
)
TRY_LOCKS = f"select l.n, l.shared, {_TRY_LOCKS}"
TRY_LOCKS_THEN_WAIT = f"select l.n, l.shared, set_config('lock_timeout', %s, true), {_TRY_LOCKS}"

_HEADS = (
    "select h.project_id, h.stream_id, h.revision, h.chain, h.bytes, h.documents from stream_heads h "
    "where (h.project_id, h.stream_id) in (select * from unnest(%s::text[], %s::text[]))"
)
WAIT_HEADS = _HEADS + " order by h.project_id, h.stream_id for no key update of h"
TRY_HEADS = WAIT_HEADS + " skip locked"
SHARE_HEADS = _HEADS + " order by h.project_id, h.stream_id for share of h skip locked"

LIGHT = 32 * 1024
"""Bytes (snapshot and payload) that a round loads of one stream at most; a heavier one is loaded before it begins."""
LIGHT_EVENTS = 200
"""Events that a round loads of one stream at most."""

# What is known of each stream is given: its revision, the bytes counted there, and, of a stream that is not known, the
# version of its snapshots. `light` is worked out from counts alone: nothing is read to know what reading would cost.
# "offset 0" keeps the planner from taking this apart: `start` is then a bound of the index over events.
_WANTED = (
    "from (select w.project_id, w.stream_id, h.revision, b.start, "  # noqa: S608 - constants only
    "s.revision as snapshot, s.bytes as counted, s.state, s.version, s.size, "
    "h.revision = w.have or (h.bytes >= 0 and b.counted >= 0 "
    f"and h.bytes - b.counted + coalesce(s.size, 0) <= {LIGHT} and h.revision - b.start <= {LIGHT_EVENTS}) as light "
    "from unnest(%s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::int[]) "
    "w(project_id, stream_id, have, bytes, version) "
    "join stream_heads h on h.project_id = w.project_id and h.stream_id = w.stream_id "
    "left join snapshots s on s.project_id = w.project_id and s.version = w.version "
    "and s.stream_id = case when w.version > 0 then w.stream_id end "
    "cross join lateral (select greatest(w.have, coalesce(s.revision, 0)) as start, "
    "case when w.have > 0 then w.bytes else coalesce(s.bytes, 0) end as counted) b offset 0) w "
)
SEE_STREAMS = (
    "select w.project_id, w.stream_id, w.revision, w.light, case when w.light then w.snapshot end, w.version, "
    f"case when w.light then w.state::text end, w.counted, w.size {_WANTED}"
)

RECORDS = (
    "select i.project_id, i.principal, i.operation, i.key, i.fingerprint, i.command_id, i.status, i.body, "
    "i.headers::text from idempotency i where (i.project_id, i.principal, i.operation, i.key) in "
    "(select * from unnest(%s::text[], %s::text[], %s::text[], %s::text[]))"
)

TAILS = (
    f"select {STREAM_COLUMNS} {_WANTED}"
    "join events e on w.light and w.revision > w.start "
    "and e.project_id = w.project_id and e.stream_id = w.stream_id and e.revision > w.start "
    "order by e.project_id, e.stream_id, e.revision"
)

_STREAM_EVENT = f"select {STREAM_COLUMNS} "
_UNPLACED_EVENT = f"select null::bigint, {EVENT_COLUMNS} "
_LOG_EVENT = f"select i.position, {EVENT_COLUMNS} "
STREAM = _STREAM_EVENT + (
    "from events e where e.project_id = %s and e.stream_id = %s "
    "and e.revision > %s::bigint and e.revision <= %s::bigint order by e.revision limit %s::bigint"
)
ANY_STREAM = _STREAM_EVENT + (
    "from events e where e.stream_id = %s "
    "and e.revision > %s::bigint and e.revision <= %s::bigint order by e.project_id, e.revision"
)
HISTORY = _STREAM_EVENT + (
    "from events e where e.kind = any(%s) and (e.project_id, e.stream_id, e.revision) > (%s, %s, %s) "
    "order by e.project_id, e.stream_id, e.revision limit %s"
)
STREAMS = _STREAM_EVENT + (
    "from unnest(%s::text[], %s::text[], %s::bigint[]) h(project_id, stream_id, have) "
    "join events e on e.project_id = h.project_id and e.stream_id = h.stream_id and e.revision > h.have "
    "order by e.project_id, e.stream_id, e.revision"
)
PLACED_STREAM = _LOG_EVENT + (
    "from events e left join log_index i on i.seq = e.seq where e.stream_id = %s order by e.project_id, e.revision"
)
ALL_EVENTS = _UNPLACED_EVENT + "from events e order by e.project_id, e.stream_id, e.revision"
LOG = _LOG_EVENT + (
    "from log_index i join events e on e.seq = i.seq "
    "where i.position > %s::bigint and i.position <= %s::bigint order by i.position limit %s::bigint"
)
LOG_OF_TOPICS = LOG.replace(" order by", " and e.topic = any(%s::text[]) order by")
LOG_SIZE = "select size from log_state"

SNAPSHOT = (
    "select s.project_id, s.stream_id, s.revision, s.version, s.state::text, s.bytes, s.size from snapshots s "
    "where s.project_id = %s and s.stream_id = %s"
)

KEEP_POSITION = (
    "insert into checkpoints as c (name, position) values (%s, %s::bigint) on conflict (name) do update "
    "set position = excluded.position where c.position < excluded.position returning position"
)
POSITION = "select max(position) from checkpoints where name = %s"
TAKE_POSITION = "select position from checkpoints where name = %s for update skip locked"

# Which tables the names stand for: the swap of a rebuild changes that. By the catalog as this statement's snapshot
# shows it; a regclass would be looked up in a cache that may be older than the lock.
TABLES = (
    "select c.relname::text, c.oid::bigint from pg_class c "
    "where c.relname = any(%s::name[]) and c.relnamespace = current_schema()::regnamespace"
)

MOMENT = f"select {NOW}"

_EVENT_COLUMNS = (
    ("project_id", "text"),
    ("stream_id", "text"),
    ("revision", "bigint"),
    ("kind", "text"),
    ("topic", "text"),
    ("payload", "jsonb"),
    ("event_id", "text"),
    ("command_id", "text"),
    ("actor_kind", "text"),
    ("actor_id", "text"),
    ("request_id", "text"),
    ("correlation_id", "text"),
    ("causation_id", "text"),
    ("salt", "bytea"),
    ("payload_hash", "bytea"),
    ("leaf", "bytea"),
    ("chain", "bytea"),
)
_NAMES = ", ".join(name for name, _ in _EVENT_COLUMNS)
_VALUES = ", ".join(f"decode(u.{n}, 'hex')" if kind == "bytea" else f"u.{n}" for n, kind in _EVENT_COLUMNS)
_TYPES = ", ".join(f"{name} {'text' if kind == 'bytea' else kind}" for name, kind in _EVENT_COLUMNS)
# One JSON array: arrays of this many columns cost the driver more than everything else in a round.
INSERT_EVENTS = (
    f"with e as (insert into events ({_NAMES}, recorded_at) "  # noqa: S608 - constants only
    f"select {_VALUES}, %s::timestamptz from rows from (jsonb_to_recordset(%s::jsonb) as ({_TYPES})) "
    f"with ordinality as u({_NAMES}, place) order by u.place returning seq) "
    "insert into unsequenced select seq from e"
)

# The statement itself fails (SH001) when a head is not where it was: what follows it, COMMIT too, is not carried out.
UPDATE_HEADS = (
    "with updated as (update stream_heads h set revision = u.revision, chain = u.chain, bytes = u.bytes, "
    "documents = coalesce(nullif(u.documents, ''), h.documents) "
    "from unnest(%s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bytea[], %s::bigint[], %s::text[]) "
    "u(project_id, stream_id, old, revision, chain, bytes, documents) "
    "where h.project_id = u.project_id and h.stream_id = u.stream_id and h.revision = u.old returning 1) "
    "select all_heads_updated(updated => (select count(*) from updated), wanted => %s::bigint)"
)
INSERT_HEADS = (
    "insert into stream_heads (project_id, stream_id, kind, revision, chain, bytes, documents) "
    "select a, b, c, d, e, f, nullif(g, '') from unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], "
    "%s::bytea[], %s::bigint[], %s::text[]) u(a, b, c, d, e, f, g)"
)
_SNAPSHOT = "project_id, stream_id, revision, version, state, bytes, size"
_KEEP_SNAPSHOT = (
    " on conflict (project_id, stream_id) do update set revision = excluded.revision, version = excluded.version, "
    "state = excluded.state, bytes = excluded.bytes, size = excluded.size"
)
UPSERT_SNAPSHOTS = (
    f"insert into snapshots ({_SNAPSHOT}) "  # noqa: S608 - constants only
    "select u.a, u.b, u.c, u.d, u.e::jsonb, u.f, u.g "
    "from unnest(%s::text[], %s::text[], %s::bigint[], %s::int[], %s::text[], %s::bigint[], %s::int[]) "
    f"u(a, b, c, d, e, f, g){_KEEP_SNAPSHOT}"
)
# Outside of a round, for a stream that nobody is writing: who holds its head keeps its snapshot. The count of bytes
# begins here if it had not begun.
KEEP_SNAPSHOT = (
    "with given as (select %s::text as project_id, %s::text as stream_id, %s::bigint as revision, %s::bigint as bytes, "  # noqa: S608 - constants only
    "%s::int as version, %s::jsonb as state, %s::int as size), "
    "held as (select h.project_id, h.stream_id from stream_heads h join given g on g.project_id = h.project_id "
    "and g.stream_id = h.stream_id and g.revision = h.revision for no key update of h skip locked), "
    # Never of an erased history: this lock is held against the erasure, which is followed by that of snapshots.
    "readable as (select e.project_id from events e join given g on g.project_id = e.project_id "
    "and g.stream_id = e.stream_id and g.revision = e.revision and e.payload is not null for share of e skip locked), "
    "counted as (update stream_heads h set bytes = g.bytes from given g, held where h.project_id = held.project_id "
    "and h.stream_id = held.stream_id and h.bytes <> g.bytes) "
    f"insert into snapshots ({_SNAPSHOT}) select g.project_id, g.stream_id, g.revision, g.version, g.state, g.bytes, "
    f"g.size from given g, held, readable{_KEEP_SNAPSHOT} returning revision"
)
_RECORDS = (
    "jsonb_to_recordset(%s::jsonb) u(project_id text, principal text, operation text, key text, fingerprint text, "
    "command_id text, client_key boolean, status int, body text, headers jsonb)"
)
# No "on conflict": should a key ever run twice in spite of its lock, the primary key ends the second attempt.
INSERT_RECORDS = (
    "insert into idempotency (project_id, principal, operation, key, fingerprint, command_id, client_key, status, "  # noqa: S608 - constants only
    "body, headers, created_at) select u.project_id, u.principal, u.operation, u.key, u.fingerprint, u.command_id, "
    f"u.client_key, u.status, convert_to(u.body, 'UTF8'), u.headers, %s::timestamptz from {_RECORDS}"
)
# A pending answer left a record without a status: its replay fills it in.
SETTLE_RECORDS = (
    "update idempotency i set command_id = u.command_id, status = u.status, "  # noqa: S608 - constants only
    f"body = convert_to(u.body, 'UTF8'), headers = u.headers from {_RECORDS} where i.project_id = u.project_id "
    "and i.principal = u.principal and i.operation = u.operation and i.key = u.key and i.status is null"
)

# Sessions that hold a gate: what the fence lane ends when one of them stalls.
GATE_HOLDERS = (
    "select l.pid from pg_locks l where l.locktype = 'advisory' and l.granted and l.objsubid = 1 "
    "and l.database = (select oid from pg_database where datname = current_database()) "
    "and ((l.classid::bigint << 32) | l.objid::bigint) = %s::bigint and l.pid <> pg_backend_pid()"
)
TERMINATE = "select pg_terminate_backend(%s::int)"


@cache
def load_rows(table: Table[Any]) -> str:
    """Select the rows of a table by (project_id, id), each as JSON."""
    assert table.key == ("project_id", "id")
    return (
        f"select row_to_json(t)::text from {table.name} t "  # noqa: S608 - names come from declarations
        "where (t.project_id, t.id) in (select * from unnest(%s::text[], %s::text[]))"
    )


@cache
def load_light_rows(table: Table[Any]) -> str:
    """Select the rows of streams that are light enough to be loaded, each as JSON."""
    assert table.key == ("project_id", "id")
    return (
        f"select row_to_json(t)::text {_WANTED}"
        f"join {table.name} t on w.light and t.project_id = w.project_id and t.id = w.stream_id"
    )


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
def delete_rows(table: Table[Any]) -> str:
    """Delete rows by (project_id, id)."""
    return (
        f"delete from {table.name} t "  # noqa: S608 - names come from declarations
        "where (t.project_id, t.id) in (select * from unnest(%s::text[], %s::text[]))"
    )
