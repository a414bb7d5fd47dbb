-- begin --
-- Prepared like all others: a statement that is not takes a cursor of its own, and is parsed in each round.
begin

-- commit --
-- The end of a round.
commit

-- lock_timeout --
-- Bound how long a statement of this transaction waits for a lock.
select set_config('lock_timeout', %s, true)

-- wait_gate --
-- Wait for a gate.
select pg_advisory_xact_lock(%s::bigint)

-- try_locks --
-- Try gates, then names, in the order of the arrays, which a scan of them keeps. A waiting exclusive lock already makes
-- a shared one false: nothing new starts while a fence waits.
select l.n, l.shared,
\include tried

-- try_locks_then_wait --
-- The same, and on the way the bound of the one statement that waits.
select l.n, l.shared, set_config('lock_timeout', %s, true),
\include tried

-- part tried --
-- Whether each lock was got.
case when l.shared then pg_try_advisory_xact_lock_shared(l.n) else pg_try_advisory_xact_lock(l.n) end
from unnest(%s::bigint[], %s::bool[]) l(n, shared)

-- part heads --
-- The heads of streams by project and id.
select h.project_id, h.stream_id, h.revision, h.chain, h.bytes, h.documents from stream_heads h
where (h.project_id, h.stream_id) in (select * from unnest(%s::text[], %s::text[]))

-- wait_heads --
-- Lock the heads of streams to be written, in one order.
\include heads
order by h.project_id, h.stream_id for no key update of h

-- try_heads --
-- The same of those that nobody holds.
\include heads
order by h.project_id, h.stream_id for no key update of h skip locked

-- share_heads --
-- Lock the heads of streams that are only read.
\include heads
order by h.project_id, h.stream_id for share of h skip locked

-- part wanted --
-- What is known of each stream is given: its revision, the bytes counted there, and, of a stream that is not known, the
-- version of its snapshots. `light` is worked out from counts alone: nothing is read to know what reading would cost.
-- "offset 0" keeps the planner from taking this apart: `start` is then a bound of the index over events.
from (select w.project_id, w.stream_id, h.revision, b.start,
    s.revision as snapshot, s.bytes as counted, s.state, s.version, s.size,
    h.revision = w.have or (h.bytes >= 0 and b.counted >= 0
        and h.bytes - b.counted + coalesce(s.size, 0) <= {bytes} and h.revision - b.start <= {events}) as light
    from unnest(%s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::int[])
        w(project_id, stream_id, have, bytes, version)
    join stream_heads h on h.project_id = w.project_id and h.stream_id = w.stream_id
    left join snapshots s on s.project_id = w.project_id and s.version = w.version
        and s.stream_id = case when w.version > 0 then w.stream_id end
    cross join lateral (select greatest(w.have, coalesce(s.revision, 0)) as start,
        case when w.have > 0 then w.bytes else coalesce(s.bytes, 0) end as counted) b offset 0) w

-- see_streams --
-- How each stream stands, and its snapshot if it is light.
select w.project_id, w.stream_id, w.revision, w.light, case when w.light then w.snapshot end, w.version,
    case when w.light then w.state::text end, w.counted, w.size
\include wanted

-- records --
-- Idempotency records by their keys.
select i.project_id, i.principal, i.operation, i.key, i.fingerprint, i.command_id, i.status, i.body,
    i.headers::text from idempotency i where (i.project_id, i.principal, i.operation, i.key) in
    (select * from unnest(%s::text[], %s::text[], %s::text[], %s::text[]))

-- tails --
-- The events of light streams after what is known of each.
select
\include stream_columns
\include wanted
join events e on w.light and w.revision > w.start
    and e.project_id = w.project_id and e.stream_id = w.stream_id and e.revision > w.start
order by e.project_id, e.stream_id, e.revision

-- part stream_columns --
-- The members of a StreamEvent.
e.project_id, e.stream_id, e.revision, e.topic, e.payload::text,
    floor(extract(epoch from e.recorded_at))::bigint, e.actor_kind || ':' || e.actor_id

-- part event_columns --
-- The members of a LogEvent after its position.
e.project_id, e.stream_id, e.revision, e.kind, e.topic, e.payload::text, e.event_id, e.command_id,
    e.actor_kind, e.actor_id, e.request_id, e.correlation_id, e.causation_id, e.recorded_at, e.salt,
    e.payload_hash, e.leaf, e.chain

-- stream --
-- Events of a stream between two revisions.
select
\include stream_columns
from events e where e.project_id = %s and e.stream_id = %s
    and e.revision > %s::bigint and e.revision <= %s::bigint order by e.revision limit %s::bigint

-- any_stream --
-- Events of a stream that is named without its project.
\include of_any_stream
limit %s::bigint

-- any_stream_back --
-- The same, the newest first.
\include of_any_stream
desc limit %s::bigint

-- part of_any_stream --
-- Events by the id of their stream alone, in order.
select
\include stream_columns
from events e where e.stream_id = %s
    and e.revision > %s::bigint and e.revision <= %s::bigint order by e.project_id, e.revision

-- history --
-- A page of all streams of some kinds.
select
\include stream_columns
from events e where e.kind = any(%s) and (e.project_id, e.stream_id, e.revision) > (%s, %s, %s)
order by e.project_id, e.stream_id, e.revision limit %s

-- streams --
-- What came of many streams after a revision of each.
select
\include stream_columns
from unnest(%s::text[], %s::text[], %s::bigint[]) h(project_id, stream_id, have)
join events e on e.project_id = h.project_id and e.stream_id = h.stream_id and e.revision > h.have
order by e.project_id, e.stream_id, e.revision

-- placed_stream --
-- A stream with the whole envelope of each event.
select i.position,
\include event_columns
from events e left join log_index i on i.seq = e.seq where e.stream_id = %s order by e.project_id, e.revision

-- all_events --
-- All events with their envelopes, by stream.
select null::bigint,
\include event_columns
from events e order by e.project_id, e.stream_id, e.revision

-- log --
-- Events between two positions.
select i.position,
\include event_columns
from log_index i join events e on e.seq = i.seq
where i.position > %s::bigint and i.position <= %s::bigint order by i.position limit %s::bigint

-- log_of_topics --
-- The same of some topics.
select i.position,
\include event_columns
from log_index i join events e on e.seq = i.seq
where i.position > %s::bigint and i.position <= %s::bigint and e.topic = any(%s::text[]) order by i.position
limit %s::bigint

-- snapshot --
-- The snapshot of a stream.
select s.project_id, s.stream_id, s.revision, s.version, s.state::text, s.bytes, s.size from snapshots s
where s.project_id = %s and s.stream_id = %s

-- keep_position --
-- Move the position of a reader forward.
insert into checkpoints as c (name, position) values (%s, %s::bigint) on conflict (name) do update
set position = excluded.position where c.position < excluded.position returning position

-- position --
-- The position of a reader.
select max(position) from checkpoints where name = %s

-- take_position --
-- Lock the position of a reader. No row: another process has it.
select position from checkpoints where name = %s for update skip locked

-- tables --
-- Which tables the names stand for: the swap of a rebuild changes that. By the catalog as this statement's snapshot
-- shows it; a regclass would be looked up in a cache that may be older than the lock.
select c.relname::text, c.oid::bigint from pg_class c
where c.relname = any(%s::name[]) and c.relnamespace = current_schema()::regnamespace

-- moment --
-- The clock of a round.
select (select service_now())

-- insert_events --
-- Append events, given as one JSON array: arrays of this many columns cost the driver more than everything else in a
-- round.
with e as (insert into events (
    \include event_names
    , recorded_at)
    select u.project_id, u.stream_id, u.revision, u.kind, u.topic, u.payload, u.event_id, u.command_id, u.actor_kind,
        u.actor_id, u.request_id, u.correlation_id, u.causation_id, decode(u.salt, 'hex'),
        decode(u.payload_hash, 'hex'), decode(u.leaf, 'hex'), decode(u.chain, 'hex'), %s::timestamptz
    from rows from (jsonb_to_recordset(%s::jsonb) as (project_id text, stream_id text, revision bigint, kind text,
        topic text, payload jsonb, event_id text, command_id text, actor_kind text, actor_id text, request_id text,
        correlation_id text, causation_id text, salt text, payload_hash text, leaf text, chain text))
    with ordinality as u(
        \include event_names
        , place) order by u.place returning seq)
insert into unsequenced select seq from e

-- part event_names --
-- The columns of an event that its writer gives.
project_id, stream_id, revision, kind, topic, payload, event_id, command_id, actor_kind, actor_id, request_id,
    correlation_id, causation_id, salt, payload_hash, leaf, chain

-- update_heads --
-- Move heads. The statement itself fails (SH001) when a head is not where it was: what follows it, COMMIT too, is not
-- carried out.
with updated as (update stream_heads h set revision = u.revision, chain = u.chain, bytes = u.bytes,
    documents = coalesce(nullif(u.documents, ''), h.documents)
    from unnest(%s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bytea[], %s::bigint[], %s::text[])
        u(project_id, stream_id, old, revision, chain, bytes, documents)
    where h.project_id = u.project_id and h.stream_id = u.stream_id and h.revision = u.old returning 1)
select all_heads_updated(updated => (select count(*) from updated), wanted => %s::bigint)

-- insert_heads --
-- Begin streams.
insert into stream_heads (project_id, stream_id, kind, revision, chain, bytes, documents)
select a, b, c, d, e, f, nullif(g, '') from unnest(%s::text[], %s::text[], %s::text[], %s::bigint[],
    %s::bytea[], %s::bigint[], %s::text[]) u(a, b, c, d, e, f, g)

-- upsert_snapshots --
-- Store snapshots of streams whose heads are held.
insert into snapshots (project_id, stream_id, revision, version, state, bytes, size)
select u.a, u.b, u.c, u.d, u.e::jsonb, u.f, u.g
from unnest(%s::text[], %s::text[], %s::bigint[], %s::int[], %s::text[], %s::bigint[], %s::int[])
    u(a, b, c, d, e, f, g)
\include keep

-- part keep --
-- A newer snapshot takes the place of the last.
on conflict (project_id, stream_id) do update set revision = excluded.revision, version = excluded.version,
    state = excluded.state, bytes = excluded.bytes, size = excluded.size

-- keep_snapshot --
-- Outside of a round, for a stream that nobody is writing: who holds its head keeps its snapshot. The count of bytes
-- begins here if it had not begun.
with given as (select %s::text as project_id, %s::text as stream_id, %s::bigint as revision, %s::bigint as bytes,
    %s::int as version, %s::jsonb as state, %s::int as size),
held as (select h.project_id, h.stream_id from stream_heads h join given g on g.project_id = h.project_id
    and g.stream_id = h.stream_id and g.revision = h.revision for no key update of h skip locked),
-- Never of an erased history: this lock is held against the erasure, which is followed by that of snapshots.
readable as (select e.project_id from events e join given g on g.project_id = e.project_id
    and g.stream_id = e.stream_id and g.revision = e.revision and e.payload is not null for share of e skip locked),
counted as (update stream_heads h set bytes = g.bytes from given g, held where h.project_id = held.project_id
    and h.stream_id = held.stream_id and h.bytes <> g.bytes)
insert into snapshots (project_id, stream_id, revision, version, state, bytes, size)
select g.project_id, g.stream_id, g.revision, g.version, g.state, g.bytes, g.size from given g, held, readable
\include keep
returning revision

-- insert_records --
-- Store idempotency records. No "on conflict": should a key ever run twice in spite of its lock, the primary key ends
-- the second attempt.
insert into idempotency (project_id, principal, operation, key, fingerprint, command_id, client_key, status,
    body, headers, created_at) select u.project_id, u.principal, u.operation, u.key, u.fingerprint, u.command_id,
    u.client_key, u.status, convert_to(u.body, 'UTF8'), u.headers, %s::timestamptz from
\include given_records

-- settle_records --
-- A pending answer left a record without a status: its replay fills it in.
update idempotency i set command_id = u.command_id, status = u.status,
    body = convert_to(u.body, 'UTF8'), headers = u.headers from
\include given_records
where i.project_id = u.project_id
    and i.principal = u.principal and i.operation = u.operation and i.key = u.key and i.status is null

-- part given_records --
-- Records as one JSON array.
jsonb_to_recordset(%s::jsonb) u(project_id text, principal text, operation text, key text, fingerprint text,
    command_id text, client_key boolean, status int, body text, headers jsonb)

-- gate_holders --
-- Sessions that hold a gate: what the fence lane ends when one of them stalls.
select l.pid from pg_locks l where l.locktype = 'advisory' and l.granted and l.objsubid = 1
    and l.database = (select oid from pg_database where datname = current_database())
    and ((l.classid::bigint << 32) | l.objid::bigint) = %s::bigint and l.pid <> pg_backend_pid()

-- terminate --
-- End a session.
select pg_terminate_backend(%s::int)

-- rows --
-- The rows of a read model by project and id, each as JSON.
select row_to_json(t)::text from {table} t
where (t.project_id, t.id) in (select * from unnest(%s::text[], %s::text[]))

-- light_rows --
-- The rows of streams that are light enough to be loaded, each as JSON.
select row_to_json(t)::text
\include wanted
join {table} t on w.light and t.project_id = w.project_id and t.id = w.stream_id

-- delete_rows --
-- Delete rows of a read model by project and id.
delete from {table} t
where (t.project_id, t.id) in (select * from unnest(%s::text[], %s::text[]))

-- whole_stream --
-- Everything of a stream but its events, with `{rows}` of its read models: all of it stands at one revision.
select h.revision, h.chain, h.bytes, s.revision, s.bytes, s.state::text{rows} from stream_heads h
left join snapshots s on s.project_id = h.project_id and s.stream_id = h.stream_id and s.version = %s::int
where h.project_id = %s and h.stream_id = %s

-- part row_of_stream --
-- One more column: the row of a stream in a read model, and the table it came from.
, (select row_to_json(t)::text from {table} t where t.project_id = h.project_id and t.id = h.stream_id)
, (select c.oid::bigint from pg_class c where c.relname = '{table}'
    and c.relnamespace = current_schema()::regnamespace)
