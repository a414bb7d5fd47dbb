-- begin_copies --
-- Begin the copy of every table, at the second of its oldest record or at a later one.
insert into telemetry_copies (telemetry, number, sealed, sealed_project, sealed_id, copied_until, failed, looked_at,
    copied_from)
select t.telemetry, 0, greatest(t.oldest, %(since)s), '', '', greatest(t.oldest, %(since)s), 0,
    (select service_seconds()), case when %(since)s > t.oldest then %(since)s else 0 end
from unnest(%(telemetry)s::text[], %(oldest)s::bigint[]) as t(telemetry, oldest)
on conflict (telemetry) do nothing

-- oldest_record --
-- The second of a table's oldest record, by the day of its oldest partition; null: it has none.
select least(
    (select min(extract(epoch from to_date(right(c.relname, 8), 'YYYYMMDD'))::bigint)
        from pg_inherits i join pg_class c on c.oid = i.inhrelid
        where i.inhparent = %(table)s::regclass and c.relname not like '%%default'),
    (select min(e.received_at) from {table} e))

-- lock_names --
-- Let nobody link names or take them apart before the end of this transaction.
select lock_names()

-- note_all_names --
-- Note the names of all people as changed: a new copy knows none.
insert into changed_names (project_id, name) select n.project_id, n.name from person_names n

-- changed_names --
-- Some names that the copy does not know yet, and whose they are now (null: nobody's).
select c.project_id, c.id, c.name, n.person
from changed_names c left join person_names n on n.project_id = c.project_id and n.name = c.name
order by c.project_id, c.id limit %(most)s

-- next_version --
-- A number after those of all that was sent of names before.
select nextval(pg_get_serial_sequence('changed_names', 'id'))

-- forget_changed_names --
-- Forget that these names have changed: the copy knows.
delete from changed_names c
using unnest(%(projects)s::text[], %(ids)s::bigint[]) as t(project_id, id)
where c.project_id = t.project_id and c.id = t.id

-- copies --
-- How far the copy of each table has come.
select telemetry, number, sealed, sealed_project, sealed_id, copied_until, failed, problem, looked_at
from telemetry_copies order by telemetry desc

-- note_look --
-- Note that a worker looked, and what stands in the way.
update telemetry_copies set looked_at = (select service_seconds()), problem = %(problem)s

-- try_lock --
-- Take the lock of the shipper for this session, if it is free.
select pg_try_advisory_lock(%(number)s::bigint)

-- settled --
-- The time, and the last second of which nothing can come in any more.
select service_seconds(), settled_until(gate => null, lag => %(lag)s)

-- part holders_of_day --
-- The projects with records in the partition of a day, by a step in the index for each.
with recursive holders(project_id) as (
    (select e.project_id from {table} e
        where e.received_at >= %(day)s and e.received_at < %(day)s + 86400
        order by e.project_id limit 1)
    union all
    select (select e.project_id from {table} e
        where e.received_at >= %(day)s and e.received_at < %(day)s + 86400 and e.project_id > h.project_id
        order by e.project_id limit 1)
    from holders h where h.project_id is not null
)

-- part within_window --
-- Records of a project after a key, up to another one.
e.project_id = h.project_id and e.received_at >= %(since)s and e.received_at <= %(until)s
    and (e.received_at, e.project_id, e.id) > (%(since)s, %(since_project)s, %(since_id)s)
    and (e.received_at, e.project_id, e.id) <= (%(until)s, %(until_project)s, %(until_id)s)

-- read_logs --
-- Logs and errors of all projects within a window of one day, in the order of their keys.
\include holders_of_day
select e.* from holders h
cross join lateral (
    select e.project_id, e.received_at, e.id, e.level, e.message, e.environment, e.release, e.user_id,
        e.user_data::text, e.tags::text, e.extra::text, e.packed, e.case_id, e.fingerprint, e.grouped_by, e.marker_hash,
        e.adjusted::text, e.public, e.occurred_at
    from {table} e where
    \include within_window
) e
where h.project_id is not null
order by e.received_at, e.project_id, e.id
limit %(most)s

-- read_analytics --
-- Events of all projects within a window of one day, in the order of their keys.
\include holders_of_day
select e.* from holders h
cross join lateral (
    select e.project_id, e.received_at, e.id, e.event, e.distinct_id, e.properties::text, e.marker_hash,
        e.adjusted::text, e.public, e.occurred_at
    from {table} e where
    \include within_window
) e
where h.project_id is not null
order by e.received_at, e.project_id, e.id
limit %(most)s

-- seal_batch --
-- Seal a window, with its manifest. Everything up to its last key is in a batch then.
with sealed as (
    update telemetry_copies c set number = c.number + 1, sealed = %(until)s, sealed_project = %(until_project)s,
        sealed_id = %(until_id)s
    where c.telemetry = %(telemetry)s and c.number = %(number)s - 1
    returning c.telemetry, c.number
)
insert into telemetry_batches (telemetry, number, since, since_project, since_id, until, until_project, until_id, rows,
    digest, kept_days, attempt)
select s.telemetry, s.number, %(since)s, %(since_project)s, %(since_id)s, %(until)s, %(until_project)s, %(until_id)s,
    %(rows)s, %(digest)s::numeric, %(kept_days)s, 1
from sealed s
returning number

-- skip_empty --
-- Pass over a window without records.
update telemetry_copies c set sealed = %(until)s, sealed_project = '', sealed_id = '',
    copied_until = case when exists (
        select from telemetry_batches b where b.telemetry = c.telemetry and b.copied_at is null) then c.copied_until
        else greatest(c.copied_until, %(until)s) end
where c.telemetry = %(telemetry)s

-- first_waiting --
-- The first batch of a table that is not in the copy.
select number, since, since_project, since_id, until, until_project, until_id, rows, digest, attempt
from telemetry_batches where telemetry = %(telemetry)s and copied_at is null order by number limit 1

-- shrink_batch --
-- Correct the manifest of a batch that is not in the copy: some of its rows are deleted.
update telemetry_batches set rows = %(rows)s, digest = %(digest)s::numeric
where telemetry = %(telemetry)s and number = %(number)s and copied_at is null

-- begin_attempt --
-- Begin another attempt at a batch, under another token.
with counted as (
    update telemetry_copies set failed = failed + 1 where telemetry = %(telemetry)s
)
update telemetry_batches set attempt = attempt + 1
where telemetry = %(telemetry)s and number = %(number)s and copied_at is null
returning attempt

-- note_copied --
-- Note that the copy has a batch, and move its watermark.
with noted as (
    update telemetry_batches set copied_at = (select service_seconds())
    where telemetry = %(telemetry)s and number = %(number)s
)
update telemetry_copies set copied_until = greatest(copied_until, %(until)s) where telemetry = %(telemetry)s

-- ask_for_erasure --
-- Ask for an erasure in the copy before a deletion ends; whether the deletion may end. PostgreSQL has none of it then,
-- so that no later batch has it.
with asked as (
    insert into telemetry_erasures (project_id, id, scope_id, person, asked_at, batches)
    select %(deletion_id)s, %(deletion_id)s, %(scope_id)s, %(person)s, (select service_seconds()), '[]'
    where exists (select from telemetry_copies)
    on conflict (project_id, id) do nothing
    returning 1
)
select not exists (select from asked) and not exists (
    select from telemetry_erasures e
    where e.project_id = %(deletion_id)s and e.id = %(deletion_id)s and e.done_at is null)

-- erasure_waits --
-- Whether a deletion waits for the copy.
select exists (
    select from telemetry_erasures e
    where e.project_id = %(deletion_id)s and e.id = %(deletion_id)s and e.done_at is null)

-- open_erasures --
-- What is to be erased in the copy, with the names of a person.
select e.id, e.scope_id, e.person, n.names, n.until, e.batches
from telemetry_erasures e
left join erasure_names n on n.project_id = e.scope_id and n.id = e.person
where e.done_at is null order by e.asked_at, e.id limit %(most)s

-- note_erased_batches --
-- Note which batches an erasure takes rows from, before it takes them.
update telemetry_erasures set batches = %(batches)s where project_id = %(id)s and id = %(id)s

-- end_erasure --
-- End an erasure in the copy, and correct the manifests of its batches.
with ended as (
    update telemetry_erasures set done_at = (select service_seconds())
    where project_id = %(id)s and id = %(id)s and done_at is null
    returning batches
)
update telemetry_batches b
set rows = b.rows - (t.batch ->> 2)::bigint,
    digest = mod(b.digest - (t.batch ->> 3)::numeric + 18446744073709551616, 18446744073709551616)
from ended e cross join lateral jsonb_array_elements(e.batches) as t(batch)
where b.telemetry = t.batch ->> 0 and b.number = (t.batch ->> 1)::bigint and b.copied_at is not null

-- erasures_of_day --
-- What was erased in the copy within the last day.
select e.id, e.scope_id from telemetry_erasures e
where e.done_at > (select service_seconds()) - 86400 and e.person is null order by e.done_at, e.id limit %(most)s

-- manifests --
-- The manifests of some batches that are in the copy.
select number, since, until, rows, digest,
    until + kept_days * 86400 <= (select service_seconds()) from telemetry_batches
where telemetry = %(telemetry)s and number > %(after)s and copied_at is not null order by number limit %(most)s

-- manifest --
-- The manifest of a batch that is in the copy.
select number, since, until, rows, digest,
    until + kept_days * 86400 <= (select service_seconds()) from telemetry_batches
where telemetry = %(telemetry)s and number = %(number)s and copied_at is not null

-- statuses --
-- How far the copy of each table has come, with the rows of its batches.
select c.telemetry, coalesce(b.batches, 0), coalesce(b.rows, 0)::bigint, coalesce(b.waiting, 0)::bigint, c.copied_until,
    greatest((select service_seconds()) - c.copied_until, 0), c.failed, c.problem, c.looked_at,
    (select service_seconds())
from telemetry_copies c
left join (
    select telemetry, count(*) as batches, sum(rows) filter (where copied_at is not null) as rows,
        sum(rows) filter (where copied_at is null) as waiting
    from telemetry_batches group by telemetry) b on b.telemetry = c.telemetry
order by c.telemetry

-- begin_anew --
-- Forget how far the copy has come, and its batches. What waits to be erased in it waits on.
with batches as (delete from telemetry_batches)
delete from telemetry_copies

-- forget_copy --
-- Forget the copy, and what was to be erased in it: that is done, as there is none.
with batches as (delete from telemetry_batches),
names as (delete from changed_names),
erasures as (update telemetry_erasures set done_at = (select service_seconds()) where done_at is null)
delete from telemetry_copies

-- forget_batches --
-- Forget the manifests of batches that the copy keeps no longer.
delete from telemetry_batches b where ctid = any(array(
    select b.ctid from telemetry_batches b
    where b.copied_at is not null and b.until + (b.kept_days + 2) * 86400 < (select service_seconds()) limit %(most)s))
