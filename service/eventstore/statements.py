"""The statements of one round, in their order (see round.py for why this order)."""

from __future__ import annotations

from functools import cache
from typing import Any

from projections.kernel.projection import Table
from service.eventstore.clock import NOW

LOCK_TIMEOUT = "select set_config('lock_timeout', %s, true)"

# A waiting exclusive lock already makes this false: nothing new starts while a fence waits.
TRY_GATES = "select n, pg_try_advisory_xact_lock_shared(n) from unnest(%s::bigint[]) n"
WAIT_GATE = "select pg_advisory_xact_lock(%s::bigint)"
TRY_NAMES = "select n, pg_try_advisory_xact_lock(n) from unnest(%s::bigint[]) n"

_HEADS = (
    "select h.project_id, h.stream_id, h.revision, h.chain from stream_heads h "
    "where (h.project_id, h.stream_id) in (select * from unnest(%s::text[], %s::text[]))"
)
WAIT_HEADS = _HEADS + " order by h.project_id, h.stream_id for no key update of h"
TRY_HEADS = WAIT_HEADS + " skip locked"
SHARE_HEADS = _HEADS + " order by h.project_id, h.stream_id for share of h skip locked"
SEE_HEADS = _HEADS

RECORDS = (
    "select i.project_id, i.principal, i.operation, i.key, i.fingerprint, i.command_id, i.status, i.body, "
    "i.headers::text from idempotency i where (i.project_id, i.principal, i.operation, i.key) in "
    "(select * from unnest(%s::text[], %s::text[], %s::text[], %s::text[]))"
)

TAILS = (
    "select e.project_id, e.stream_id, e.revision, e.topic, e.payload::text, e.recorded_at, "
    "e.actor_kind || ':' || e.actor_id "
    "from unnest(%s::text[], %s::text[], %s::bigint[], %s::int[]) h(project_id, stream_id, have, version) "
    "join events e on e.project_id = h.project_id and e.stream_id = h.stream_id and e.revision > "
    "greatest(h.have, coalesce((select s.revision from snapshots s where s.project_id = h.project_id "
    "and s.stream_id = h.stream_id and s.version = h.version), 0)) "
    "order by e.project_id, e.stream_id, e.revision"
)

SNAPSHOTS = (
    "select s.project_id, s.stream_id, s.revision, s.state::text "
    "from unnest(%s::text[], %s::text[], %s::int[]) h(project_id, stream_id, version) "
    "join snapshots s on s.project_id = h.project_id and s.stream_id = h.stream_id and s.version = h.version"
)

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

UPDATE_HEADS = (
    "update stream_heads h set revision = u.revision, chain = u.chain "
    "from unnest(%s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bytea[]) "
    "u(project_id, stream_id, old, revision, chain) "
    "where h.project_id = u.project_id and h.stream_id = u.stream_id and h.revision = u.old"
)
INSERT_HEADS = (
    "insert into stream_heads (project_id, stream_id, kind, revision, chain) "
    "select * from unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::bytea[])"
)
UPSERT_SNAPSHOTS = (
    "insert into snapshots (project_id, stream_id, revision, version, state) "
    "select u.a, u.b, u.c, u.d, u.e::jsonb "
    "from unnest(%s::text[], %s::text[], %s::bigint[], %s::int[], %s::text[]) u(a, b, c, d, e) "
    "on conflict (project_id, stream_id) do update "
    "set revision = excluded.revision, version = excluded.version, state = excluded.state"
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
