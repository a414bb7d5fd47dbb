-- page_before --
-- A page of a stream before a revision. It ends before the event that would be too much. The database weighs one
-- payload after the other, and none that is left out comes here.
select
\include eventstore/statements.stream_columns
from (select w.*, row_number() over (order by w.revision) as place,
    sum(octet_length(w.payload::text)) over (order by w.revision) as weight from (select * from events i
        where i.project_id = %s and i.stream_id = %s and i.revision > %s and i.revision < %s
        order by i.revision limit %s) w) e where e.place = 1 or coalesce(e.weight, 0) <= %s order by e.revision

-- snapshots --
-- Every snapshot with the head of its stream.
select s.project_id, s.stream_id, s.revision, s.version, h.kind, h.revision from snapshots s
left join stream_heads h using (project_id, stream_id) order by s.project_id, s.stream_id

-- purging --
-- The scopes whose rows are being removed.
select scope_id from deletions where phase = 'purging'

-- damaged --
-- Streams whose head is not where their events end.
select stream_id from stream_heads h full join (select project_id, stream_id, count(*) as events,
max(revision) as last from events group by project_id, stream_id) e using (project_id, stream_id)
where h.revision is distinct from e.events or h.revision is distinct from e.last order by stream_id limit %s

-- heads_asked --
-- The heads of streams in the order in which they are asked for.
select h.project_id, h.stream_id, h.kind, h.revision, h.chain
from
\include asked
join stream_heads h using (project_id, stream_id) order by asked.place

-- events_asked --
-- All events of streams in the order in which they are asked for.
select i.position,
\include eventstore/statements.event_columns
from
\include asked
join events e using (project_id, stream_id)
left join log_index i on i.seq = e.seq order by asked.place, e.revision

-- part asked --
-- Streams by project and id, in an order.
unnest(%s::text[], %s::text[]) with ordinality as asked (project_id, stream_id, place)

-- counts --
-- The number of events, and the size of the log.
select (select count(*) from events), (select size from log_state)

-- heads_in_order --
-- All heads, in an order that no locale changes.
select project_id, stream_id, revision, encode(chain, 'hex') from stream_heads
order by project_id collate "C", stream_id collate "C"

-- newer --
-- Those of some streams that hold an event of a topic that this release cannot read.
select distinct e.project_id, e.stream_id from unnest(%s::text[], %s::text[]) h(project_id, stream_id)
join events e on e.project_id = h.project_id and e.stream_id = h.stream_id
where e.topic <> all(%s::text[]) and e.payload is not null

-- shape --
-- The columns, constraints and indexes of a table.
select coalesce(json_agg(x.line order by x.line), '[]')::text from (
    select format('%%s %%s %%s %%s', a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attcollation) line
    from pg_attribute a where a.attrelid = %(table)s::text::regclass and a.attnum > 0 and not a.attisdropped
    union all
    select pg_get_constraintdef(c.oid) from pg_constraint c where c.conrelid = %(table)s::text::regclass
    union all
    select substr(i.indexdef, position(' USING ' in i.indexdef)) from pg_indexes i
    where i.schemaname = current_schema() and i.tablename = %(table)s::text
) x

-- unknown_topics --
-- Topics in the log that this release does not know, each with its first position.
select topic, first_position from topics_met where topic <> all(%s::text[]) order by topic

-- streams_of_topics --
-- How many streams have events of some topics between two positions.
select count(*) from (select distinct e.project_id, e.stream_id from log_index i join events e on e.seq = i.seq
where i.position between %s::bigint and %s::bigint and e.topic = any(%s::text[])) found

-- log_has_no_size --
-- A log without a size.
select '', '', 0 where not exists (select from log_state)

-- log_has_holes --
-- The first position that no event has.
select '', '', case when exists (select from log_index where position = 1) then min(i.position) + 1 else 1 end
    from log_index i where not exists (select 1 from log_index n where n.position = i.position + 1) having
    count(*) > 1 or coalesce(max(i.position), 0) <> (select count(*) from log_index)

-- log_ends_early --
-- The first position that the log should have.
select '', '', coalesce((select max(position) from log_index), 0) + 1 from log_state s where s.size >
    coalesce((select max(position) from log_index), 0)

-- log_exceeds_its_size --
-- The first position that the log should not have.
select '', '', s.size + 1 from log_state s where s.size < coalesce((select max(position) from log_index), 0)

-- reader_ahead_of_log --
-- The first position of a reader that the log does not have.
select '', '', min(c.position) from checkpoints c, log_state s where c.position > s.size having count(*) > 0

-- queue_names_no_event --
-- An entry of the queue without an event.
select '', '', 0 from unsequenced u where not exists (select 1 from events e where e.seq = u.seq) limit 1

-- event_not_in_log --
-- The first event with neither a position nor a place in the queue.
select e.project_id, e.stream_id, e.revision from events e where not exists (select 1 from log_index i where
    i.seq = e.seq) and not exists (select 1 from unsequenced u where u.seq = e.seq) order by e.seq limit 1

-- event_not_in_project --
-- The first event with a position that its project does not know.
select e.project_id, e.stream_id, e.revision from log_index i join events e on e.seq = i.seq where not exists
    (select 1 from project_positions p where p.project_id = e.project_id and p.seq = i.seq) order by e.seq limit
    1

-- event_twice_in_log --
-- The first event with two places.
select e.project_id, e.stream_id, e.revision from events e where (select count(*) from (select seq from
    log_index i where i.seq = e.seq union all select seq from unsequenced u where u.seq = e.seq) places) > 1
    order by e.seq limit 1

-- log_names_no_event --
-- The first position without an event.
select '', '', i.position from log_index i where not exists (select 1 from events e where e.seq = i.seq) order
    by i.position limit 1

-- log_order_broken --
-- The first event that is not placed after the one before it of its stream.
select project_id, stream_id, revision from (select e.project_id, e.stream_id, e.revision, i.position,
    e.revision - lag(e.revision, 1, 0::bigint) over (partition by e.project_id, e.stream_id order by i.position)
    as step from log_index i join events e on e.seq = i.seq) steps where step <> 1 order by position limit 1

-- bound_by_revision --
-- Where a stream ends by a revision, and its first revision after a mark.
select (select h.revision from stream_heads h where h.project_id = %s and h.stream_id = %s), least((select
    min(e.revision) from events e where e.project_id = %s and e.stream_id = %s and e.revision > %s::bigint),
    coalesce((select h.revision from stream_heads h where h.project_id = %s and h.stream_id = %s), 0) + 1)

-- bound_by_position --
-- Where a stream ends by a position, and its first revision after a mark.
select (select size from log_state where (%s::text, %s::text) is not null), least((select min(e.revision) from
    events e where e.project_id = %s and e.stream_id = %s and not exists (select from log_index i where i.seq =
    e.seq and i.position <= %s::bigint)), coalesce((select h.revision from stream_heads h where h.project_id =
    %s and h.stream_id = %s), 0) + 1)

-- bound_by_time --
-- Where a stream ends by a time, and its first revision after a mark.
select (select (select service_seconds()) where (%s::text, %s::text) is not null), least((select min(e.revision)
    from events e where e.project_id = %s and e.stream_id = %s and e.recorded_at >= to_timestamp(%s::bigint +
    1)), coalesce((select h.revision from stream_heads h where h.project_id = %s and h.stream_id = %s), 0) + 1)

-- size_and_time --
-- The size of the log, and the time.
select size, (select service_seconds()) from log_state

-- cursor --
-- Where a rebuild by the same code into the same table has come.
select position, project_id, stream_id, rows, events, digest, started_at from rebuilds
where name = %s and fingerprint = %s

-- begin_rebuild --
-- Begin a rebuild.
insert into rebuilds (name, position, started_at, fingerprint) values (%s, %s, %s, %s)

-- save_cursor --
-- Note where a rebuild has come.
update rebuilds set position = %s, project_id = %s, stream_id = %s, rows = %s, events = %s, digest = %s
where name = %s

-- columns --
-- The columns of a table.
select column_name::text from information_schema.columns
where table_schema = current_schema() and table_name = %s

-- indexes --
-- What each index of a table is on, and its name.
select substr(indexdef, position(' USING ' in indexdef)), indexname from pg_indexes
where schemaname = current_schema() and tablename = %s

-- count_folded --
-- How many events of some kinds have a position up to one.
select (select count(*) from events where kind = any(%s)) - (select count(*) from events e
    where e.kind = any(%s) and e.seq in
    (select seq from log_index where position > %s union all select seq from unsequenced))

-- numbered --
-- The streams of some kinds with events between two positions.
select e.project_id, e.stream_id, count(*) from log_index i join events e on e.seq = i.seq
where i.position > %s and i.position <= %s and e.kind = any(%s) group by 1, 2

-- committed --
-- The streams of some kinds with events after a position, or without one yet.
select e.project_id, e.stream_id, count(*) from events e where e.kind = any(%s) and e.seq in
    (select seq from log_index where position > %s union all select seq from unsequenced)
group by 1, 2

-- take_erased --
-- Copy the rows of scopes that are being erased, or were, into the shadow of their table.
insert into {shadow} as s ({columns}) select {columns} from {table} t where
\include erased
returning row_to_json(s)::text

-- leave_erased --
-- Remove those rows from the shadow.
delete from {shadow} t where
\include erased
returning row_to_json(t)::text

-- part erased --
-- A row of a scope that is being erased, or was.
t.project_id in (select d.scope_id from deletions d where d.phase = 'purging'
    or (d.phase = 'deleted' and d.kind = 'project'))
