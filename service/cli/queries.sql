-- schema_is_there --
-- Whether a database has the service's tables.
select to_regclass('events') is not null

-- server_settings --
-- Some settings of the server.
select name, setting from pg_settings where name = any(%(names)s)

-- clock_offset --
-- By how many seconds the service's clock is ahead of the machine's.
select offset_seconds from service_clock

-- query_role --
-- The role under which callers' queries run: its name and whether there is one that may be taken and sees the views.
select session_user || '_queries', exists (
    select from pg_roles r where r.rolname = session_user || '_queries' and pg_has_role(r.oid, 'member')
        and coalesce(has_table_privilege(r.oid, to_regclass('queried_events'), 'select'), false))

-- unnumbered --
-- How many committed events have no position yet, and the age of the oldest in seconds.
select count(*), coalesce(extract(epoch from (select service_now()) - min(e.recorded_at)), 0)::bigint
from unsequenced u join events e on e.seq = u.seq

-- failed_tasks --
-- How many jobs of each task have failed. A later run of a scheduled task has done the work of a failed one.
select j.task_name, count(*)
from procrastinate_jobs j
left join task_runs r on r.task = j.task_name
where j.status = 'failed'
    and (
        r.task is null
        or r.finished_at <= coalesce((select max(e.at) from procrastinate_events e where e.job_id = j.id), 'infinity')
    )
group by 1
order by 2 desc, 1

-- last_event_if --
-- The reason in a stream's last event and its time, if it is of a topic.
select e.payload ->> 'why', e.recorded_at::timestamptz(0)::text
from stream_heads h
join events e on e.project_id = h.project_id and e.stream_id = h.stream_id and e.revision = h.revision
where h.project_id = %(project_id)s and h.stream_id = %(stream_id)s and e.topic = %(topic)s

-- log_size --
-- How many events have their position in the log; 0 before there is a log.
select coalesce(max(size), 0) from log_state

-- jobs --
-- The jobs that failed, wait or run, the failed ones first.
select j.id, j.task_name, j.status::text, j.attempts,
    (select floor(extract(epoch from max(e.at)))::bigint from procrastinate_events e where e.job_id = j.id),
    floor(extract(epoch from j.scheduled_at))::bigint
from procrastinate_jobs j
where j.status in ('failed', 'todo', 'doing')
order by j.status = 'failed' desc, j.id
limit %(most)s

-- failed_jobs --
-- The jobs that failed, or the one of a number if it failed.
select j.id from procrastinate_jobs j
where j.status = 'failed' and (%(id)s::bigint is null or j.id = %(id)s)
order by j.id

-- retry_job --
-- Let a job run again, at once.
select procrastinate_retry_job_v2(%(id)s, clock_timestamp(), null, null, null)

-- cosigned --
-- The newest cosigned checkpoints of an origin with all their cosignatures, for `service doctor`.
select s.size, c.note || string_agg(s.lines, '' order by s.witness),
    extract(epoch from clock_timestamp() - max(s.cosigned_at))::float8
from log_cosignatures s
join log_checkpoints c on c.origin = s.origin and c.size = s.size
where s.origin = %(origin)s and s.size in (
    select size from log_cosignatures where origin = %(origin)s order by size desc limit 60)
group by s.size, c.note
order by s.size desc

-- rebuilds --
-- The unfinished rebuilds, and how far they have come.
select name, events from rebuilds

-- tables --
-- Every table.
select relname from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace order by relname

-- project_is_there --
-- Whether there is any stream in a project.
select exists (select from stream_heads where project_id = %(project_id)s)

-- any_table --
-- Whether a database has tables at all.
select exists (select from pg_tables where schemaname = current_schema())
