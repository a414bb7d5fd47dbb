-- going --
-- Whether a round of an erasure is at its purge.
select e.deletion_id from erasures e
where e.project_id = %(project_id)s and e.id = %(id)s and e.deletion_id = %(deletion_id)s and e.phase = 'purging'

-- phase_of_person --
-- How far a round of an erasure has come.
select e.phase from erasures e
where e.project_id = %(project_id)s and e.id = %(id)s and e.deletion_id = %(deletion_id)s

-- server --
-- Which server this is, and since when it runs.
select concat_ws(' ', inet_server_addr(), inet_server_port(), pg_postmaster_start_time())

-- hold_gate --
-- Hold a gate exclusively to the end of the transaction: nothing of its project is stored meanwhile.
select pg_advisory_xact_lock(%(gate)s::bigint)

-- cut_person --
-- Take somebody who is being erased out of what is counted by case, a step: how many pairs of case and name. Null
-- when it is too early.
select cut_person(project => %(project_id)s, erasure => %(id)s, most => %(most)s)

-- settle_feedback --
-- Find the errors of a project's reports that came before them: they say whose such a report is.
select settle_feedback(project => %(project_id)s, seconds => %(seconds)s, most => null)

-- erase_feedback --
-- Erase some of what a person wrote: under one of the names, about an error of theirs, or with an address that their
-- errors have; returns how many.
with going as (
    select array(select jsonb_array_elements_text(n.names)) as names, n.until from erasure_names n
    where n.project_id = %(project_id)s and n.id = %(id)s
), addresses as (
    select array(
        select unnest(g.names) union
        select u.user_email from case_users u
        where u.project_id = %(project_id)s and u.user_id = any(g.names) and u.user_email is not null) as emails
    from going g
), gone as (
    delete from feedback_reports f where f.ctid = any(array(
        select d.ctid from (
            select f.ctid from feedback_reports f
            where f.project_id = %(project_id)s and f.user_id = any((select g.names from going g)::text[])
                and f.received_at <= (select g.until from going g)
            union
            select f.ctid from feedback_reports f
            where f.project_id = %(project_id)s and f.error_user = any((select g.names from going g)::text[])
                and f.received_at <= (select g.until from going g)
            union
            select f.ctid from feedback_reports f
            where f.project_id = %(project_id)s and f.email = any((select a.emails from addresses a)::text[])
                and f.received_at <= (select g.until from going g)) d
        limit %(most)s))
    returning 1
), told as (
    update erasure_names n set records = n.records + (select count(*) from gone)
    where n.project_id = %(project_id)s and n.id = %(id)s
)
select count(*) from gone

-- erase_logs --
-- Erase some logs and errors of a person in a partition, and keep that there was one; returns how many.
with going as (
    select array(select jsonb_array_elements_text(n.names)) as names, n.until from erasure_names n
    where n.project_id = %(project_id)s and n.id = %(id)s
), gone as (
    delete from {table} e where e.ctid = any(array(
        select d.ctid from {table} d
        where d.project_id = %(project_id)s and d.user_id = any((select g.names from going g)::text[])
            and d.received_at <= (select g.until from going g)
        limit %(most)s))
    returning e.id, e.received_at, e.level, e.environment, e.release, e.case_id, e.public
), errors as (
    select g.case_id, count(*) as errors from gone g where g.case_id is not null group by g.case_id
), held as (
    select c.id from case_stats c
    where c.project_id = %(project_id)s and c.id in (select x.case_id from errors x)
    order by c.id for no key update
), counted as (
    update case_stats c set erased_errors = c.erased_errors + x.errors
    from held h join errors x on x.case_id = h.id
    where c.project_id = %(project_id)s and c.id = h.id
), kept as (
    insert into erased_records (project_id, received_at, id, level, environment, release, case_id, public)
    select %(project_id)s, g.received_at, g.id, g.level, g.environment, g.release, g.case_id, g.public
    from gone g
), told as (
    update erasure_names n set records = n.records + (select count(*) from gone)
    where n.project_id = %(project_id)s and n.id = %(id)s
)
select count(*) from gone

-- erase_analytics --
-- Erase some analytics events of a person in a partition, and keep that there was one; returns how many.
with going as (
    select array(select jsonb_array_elements_text(n.names)) as names, n.until from erasure_names n
    where n.project_id = %(project_id)s and n.id = %(id)s
), gone as (
    delete from {table} e where e.ctid = any(array(
        select d.ctid from {table} d
        where d.project_id = %(project_id)s and d.distinct_id = any((select g.names from going g)::text[])
            and d.received_at <= (select g.until from going g)
        limit %(most)s))
    returning e.id, e.received_at, e.event, e.public,
        \include analytics.named_environment
        as environment
), kept as (
    insert into erased_records (project_id, received_at, id, event, environment, public)
    select %(project_id)s, g.received_at, g.id, g.event, left(g.environment, 160), g.public
    from gone g
), told as (
    update erasure_names n set records = n.records + (select count(*) from gone)
    where n.project_id = %(project_id)s and n.id = %(id)s
)
select count(*) from gone

-- unknown_erasures --
-- Which erasures of people, by their place in a list, a database does not know: the project is there, and no erasure of
-- the name has been fenced since.
select l.place
from unnest(%(places)s::int[], %(projects)s::text[], %(streams)s::text[], %(untils)s::bigint[])
    as l(place, project_id, stream_id, until)
join projects p on p.project_id = l.project_id and p.id = l.project_id and p.status = 'active'
left join erasures e on e.project_id = l.project_id and e.id = l.stream_id
where e.id is null or e.fenced_at < l.until
order by l.place

-- names_of_project --
-- Some of the names that a project's telemetry has, those after one, in order: of events, of errors, of the people of
-- cases, joined ones, those that a product told of, and those of people who wrote something. Each is found by a step in
-- an index.
with recursive step(name, n) as (
    (select least(
        (select min(e.distinct_id) from analytics_events e
            where e.project_id = %(project_id)s and e.distinct_id > %(after)s),
        (select min(e.user_id) from log_events e where e.project_id = %(project_id)s and e.user_id > %(after)s),
        (select min(u.user_id) from case_users u where u.project_id = %(project_id)s and u.user_id > %(after)s),
        (select min(w.name) from person_names w where w.project_id = %(project_id)s and w.name > %(after)s),
        (select min(t.id) from telemetry_people t where t.project_id = %(project_id)s and t.id > %(after)s),
        (select min(f.user_id) from feedback_reports f where f.project_id = %(project_id)s and f.user_id > %(after)s),
        (select min(f.email) from feedback_reports f where f.project_id = %(project_id)s and f.email > %(after)s),
        (select min(f.error_user) from feedback_reports f
            where f.project_id = %(project_id)s and f.error_user > %(after)s)), 1)
    union all
    select least(
        (select min(e.distinct_id) from analytics_events e
            where e.project_id = %(project_id)s and e.distinct_id > s.name),
        (select min(e.user_id) from log_events e where e.project_id = %(project_id)s and e.user_id > s.name),
        (select min(u.user_id) from case_users u where u.project_id = %(project_id)s and u.user_id > s.name),
        (select min(w.name) from person_names w where w.project_id = %(project_id)s and w.name > s.name),
        (select min(t.id) from telemetry_people t where t.project_id = %(project_id)s and t.id > s.name),
        (select min(f.user_id) from feedback_reports f where f.project_id = %(project_id)s and f.user_id > s.name),
        (select min(f.email) from feedback_reports f where f.project_id = %(project_id)s and f.email > s.name),
        (select min(f.error_user) from feedback_reports f
            where f.project_id = %(project_id)s and f.error_user > s.name)), s.n + 1
    from step s where s.name is not null and s.n < %(most)s
)
select s.name from step s where s.name is not null order by s.n

-- phase --
-- How far a deletion has come.
select phase from deletions where project_id = %(id)s and id = %(id)s

-- drop_halves --
-- Drop the tables that a killed rebuild has left.
select drop_rebuild_halves(read_model => %(read_model)s)

-- erase --
-- Erase the payloads of a scope, a step; returns how many, and where the next step begins.
select * from erase_payloads(erased_scope => %(scope)s, deletion_id => %(deletion_id)s,
    after_stream => %(after_stream)s, after_revision => %(after_revision)s, max_rows => %(most)s)

-- forget_records --
-- Delete the idempotency records of some blocks that name a scope. Answers are kept under who asked, so those about a
-- project lie in the scopes of its people too. Answers in projects that stay are those projects' own, also where they
-- name somebody whose account goes.
delete from idempotency
where ctid >= format('(%%s,0)', %(first)s::bigint)::tid and ctid < format('(%%s,0)', %(after)s::bigint)::tid
    and project_id !~ %(not_in)s
    and (position(%(scope)s in operation) > 0 or position(convert_to(%(scope)s, 'UTF8') in body) > 0)

-- forget_jobs --
-- Delete the jobs that name a scope, but for those that are at work.
delete from procrastinate_jobs where position(%(scope)s in args::text) > 0 and status <> 'doing'

-- blocks_of_records --
-- How many blocks the idempotency records fill.
select pg_relation_size('idempotency') / current_setting('block_size')::int

-- half_is_there --
-- Whether a table that a rebuild has made is there.
select to_regclass(%(half)s) is not null

-- forget_rebuild --
-- Forget how far a rebuild had come.
delete from rebuilds where name = %(name)s

-- forget_feedback --
-- Feedback keeps its texts with the person, but names no project that is deleted: some of what names it.
update feedback set about_project = null
where ctid = any(array(select ctid from feedback where about_project = %(scope)s limit %(batch)s))

-- left --
-- What is left of a deletion, each number up to a bound: projects of an account, open objects of automation, records of
-- telemetry; and whether one of them waits for the copy of telemetry.
select
    (select count(*) from (
        select from memberships m
            join projects p on p.project_id = m.project_id and p.id = m.project_id and p.status = 'active'
            where m.user_id = %(scope_id)s
        union all select from auditors m
            join projects p on p.project_id = m.project_id and p.id = m.project_id and p.status = 'active'
            where m.user_id = %(scope_id)s
        limit %(most)s) x)
    + (select count(*) from deletions d where d.parent_id = %(deletion_id)s and d.phase <> 'deleted'),
    (select count(*) from (
        select from automation_runs t where t.project_id = %(scope_id)s and t.live
        union all select from trigger_receipts t
            where t.project_id = %(scope_id)s and t.status in ('issued', 'claimed')
        union all select from claims t where t.project_id = %(scope_id)s and t.status = 'active'
        limit %(most)s) x),
    (select count(*) from (
        select from log_events e where e.project_id = %(scope_id)s
        union all select from analytics_events e where e.project_id = %(scope_id)s
        limit %(most)s) x),
    exists (select from telemetry_erasures e where e.done_at is null and e.id in (
        select %(deletion_id)s union all
        select d.id from deletions d where d.parent_id = %(deletion_id)s and d.phase <> 'deleted'))

-- untold --
-- Whether a webhook of a fenced project has still to be told of the fence.
select exists (
    select from webhooks w
    where w.project_id = %(project_id)s and w.status = 'active' and w.events ? 'project.fenced'
    and not exists (select from webhook_deliveries d
        where d.project_id = w.project_id and d.webhook_id = w.id and d.event = 'project.fenced' and d.due_ms is null))

-- alive --
-- Of what a ledger names as erased what is there all the same: the scope is there, and its deletion is not known, or
-- has not come to its purge.
select l.scope_id, l.deletion_id, l.at
from unnest(%(scopes)s::text[], %(deletions)s::text[], %(times)s::bigint[]) l(scope_id, deletion_id, at)
left join deletions d on d.project_id = l.deletion_id and d.id = l.deletion_id
where (d.phase = 'fenced' or (d.id is null and not exists (
        select from stream_heads h where h.project_id = l.deletion_id and h.stream_id = l.deletion_id)))
    and (exists (select from projects p where p.project_id = l.scope_id and p.id = l.scope_id)
        or exists (
            select from people p where p.project_id = l.scope_id and p.id = l.scope_id and p.created_at <= l.at))
order by l.at, l.deletion_id
