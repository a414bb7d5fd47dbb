-- behind --
-- How many events each reader of the log is behind.
select c.name, s.size - c.position from checkpoints c, log_state s order by c.name

-- unnumbered --
-- How many of the oldest committed events have no position yet, and the age of the oldest in seconds.
select count(*), coalesce(extract(epoch from (select service_now()) - min(e.recorded_at)), 0)::bigint
from (select seq from unsequenced order by seq limit 1000) u join events e on e.seq = u.seq

-- figures --
-- What /metrics shows of the database: name, labels and value of each gauge. Ages of jobs and tasks are by the clock of
-- the machine, those of events by the service's, which wrote them.
select 'service_jobs', jsonb_build_object('status', s),
    (select count(*) from procrastinate_jobs where status = s)::float8
from unnest(enum_range(null::procrastinate_job_status)) s
union all
select 'service_jobs_longest_wait_seconds', '{}',
    coalesce(extract(epoch from clock_timestamp() - min(coalesce(j.scheduled_at, d.at))), 0)
from (
    select id, scheduled_at from procrastinate_jobs
    where status = 'todo' and (scheduled_at is null or scheduled_at <= clock_timestamp())
    order by priority desc, id
    limit 1000
) j
left join lateral (
    select min(e.at) as at from procrastinate_events e where e.job_id = j.id and e.type = 'deferred') d on true
union all
select 'service_workers', '{}', count(*)
from procrastinate_workers
where last_heartbeat > clock_timestamp() - interval '30 s'
union all
select 'service_task_age_seconds', jsonb_build_object('task', task),
    greatest(extract(epoch from clock_timestamp() - finished_at), 0)
from task_runs
union all
select 'service_task_seconds', jsonb_build_object('task', task), seconds from task_runs
union all
select 'service_log_events', '{}', size from log_state
union all
select 'service_log_signed_events', '{}', coalesce((
    select size from log_checkpoints where origin = (select origin from log_origins order by number desc limit 1)
    order by size desc limit 1), 0)
union all
select 'service_log_may_be_signed', jsonb_build_object('verdict', verdict), (verdict = 'same')::int from log_standing
union all
select 'service_log_cosigned_events', jsonb_build_object('witness', w.witness), w.size
from (
    select witness, max(size) as size from log_cosignatures
    where origin = (select origin from log_origins order by number desc limit 1) group by witness
) w
union all
select f.name, '{}', f.value
from (
    select count(*) as number, coalesce(extract(epoch from (select service_now()) - min(e.recorded_at)), 0) as age
    from (select seq from unsequenced order by seq limit 1000) u join events e on e.seq = u.seq
) w
cross join lateral (values
    ('service_sequencer_waiting', w.number), ('service_sequencer_lag_seconds', greatest(w.age, 0))) f(name, value)
union all
select f.name, jsonb_build_object('reader', c.name), f.value
from checkpoints c cross join log_state s
left join log_index i on i.position = c.position + 1
left join events e on e.seq = i.seq
cross join lateral (values
    ('service_reader_lag_events', s.size - c.position),
    ('service_reader_lag_seconds',
        greatest(coalesce(extract(epoch from (select service_now()) - e.recorded_at), 0), 0))) f(name, value)
union all
select 'service_rebuild_events', jsonb_build_object('table', name), events from rebuilds
union all
select 'service_new_cases_most', '{}', coalesce(max(opened), 0)
from case_rates
where hour >= floor(extract(epoch from (select service_now())) / 3600) * 3600
union all
select f.name, '{}', f.value
from (
    select count(*) as number, coalesce((select service_seconds()) - min(d.fenced_at), 0) as age
    from deletions d where d.phase <> 'deleted'
) w
cross join lateral (values
    ('service_deletions_open', w.number), ('service_deletions_oldest_seconds', greatest(w.age, 0))) f(name, value)
union all
select f.name, jsonb_build_object('table', c.telemetry), f.value
from telemetry_copies c
cross join lateral (values
    ('service_copy_lag_seconds', greatest((select service_seconds()) - c.copied_until, 0)),
    ('service_copy_rows_waiting', (
        select coalesce(sum(b.rows), 0) from telemetry_batches b
        where b.telemetry = c.telemetry and b.copied_at is null)),
    ('service_copy_failed_batches', c.failed),
    ('service_copy_stands_still', (c.problem is not null)::int)) f(name, value)
union all
select f.name, '{}', f.value
from (
    select count(*) as number, coalesce((select service_seconds()) - min(e.asked_at), 0) as age
    from telemetry_erasures e where e.done_at is null
) w
cross join lateral (values
    ('service_copy_erasures_open', w.number),
    ('service_copy_erasures_oldest_seconds', greatest(w.age, 0))) f(name, value)
where exists (select from telemetry_copies) or w.number > 0
union all
select f.name, '{}', f.value
from (
    select count(*) as number, coalesce((select service_seconds()) - min(l.due_at), 0) as age
    from alert_looks l
    join projects p on p.project_id = l.project_id and p.id = l.project_id and p.status = 'active'
    where l.due_at <= (select service_seconds())
) w
cross join lateral (values
    ('service_alerts_due', w.number), ('service_alerts_oldest_due_seconds', w.age)) f(name, value)
union all
select f.name, '{}', f.value
from (
    -- One step through the index of what is left to do a webhook, for 1000 of them, and 100 deliveries of each.
    with recursive left_to_do as (
        (select d.project_id, d.webhook_id, d.due_ms, 1 as number from webhook_deliveries d
        where d.due_ms is not null
        order by d.project_id, d.webhook_id, d.due_ms limit 1)
        union all
        select n.project_id, n.webhook_id, n.due_ms, l.number + 1 from left_to_do l
        cross join lateral (
            select d.project_id, d.webhook_id, d.due_ms from webhook_deliveries d
            where d.due_ms is not null and (d.project_id, d.webhook_id) > (l.project_id, l.webhook_id)
            order by d.project_id, d.webhook_id, d.due_ms limit 1) n
        where l.number < 1000
    ), clock as (
        select extract(epoch from (select service_now())) * 1000 as now_ms
    )
    select coalesce(sum(due.number), 0) as number, coalesce(max(c.now_ms - l.due_ms), 0) / 1000 as age
    from left_to_do l cross join clock c
    join webhook_subscriptions s on s.project_id = l.project_id and s.id = l.webhook_id and s.active
    cross join lateral (
        select count(*) as number from (
            select from webhook_deliveries d
            where d.project_id = l.project_id and d.webhook_id = l.webhook_id and d.due_ms <= c.now_ms limit 100) x) due
    where l.due_ms <= c.now_ms
) w
cross join lateral (values
    ('service_webhook_deliveries_due', w.number),
    ('service_webhook_deliveries_oldest_due_seconds', w.age)) f(name, value)
union all
select f.name, jsonb_build_object('table', t.name), f.value
from (
    select r.relname as name, sum(pg_total_relation_size(p.relid)) as bytes,
        sum(pg_stat_get_live_tuples(p.relid)) as number
    from pg_class r
    cross join lateral (
        select r.oid as relid where r.relkind = 'r'
        union all select relid from pg_partition_tree(r.oid) where r.relkind = 'p' and isleaf) p
    where r.relkind in ('r', 'p') and not r.relispartition and r.relnamespace = current_schema()::regnamespace
    group by r.relname
) t
cross join lateral (values ('service_table_bytes', t.bytes), ('service_table_rows', t.number)) f(name, value)

-- advance --
-- Move the service's clock ahead; returns its time and by how much it is ahead of the machine's.
with moved as materialized (select advance_service_clock(seconds => %(seconds)s) as ahead)
select floor(extract(epoch from clock_timestamp()))::bigint + ahead, ahead from moved
