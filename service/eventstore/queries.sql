-- lock_log --
-- Lock the log for numbering. No row: another process numbers.
select size from log_state for update skip locked

-- number --
-- Number events that are not numbered yet. A later statement than the lock, so that its snapshot shows what the last
-- holder deleted.
with took as (delete from unsequenced where seq in
(select seq from unsequenced order by seq limit %s) returning seq),
placed as (insert into log_index (position, seq)
select %s + row_number() over (order by seq), seq from took returning 1) select count(*) from placed

-- grow --
-- Grow the log.
update log_state set size = size + %s

-- standing_of_host --
-- Whether a host is in recovery, its timeline, and the end of its log in bytes, as far as a standby has received it.
select r.recovers,
    case when r.recovers then (select timeline_id from pg_control_checkpoint())
    else ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int end,
    (case when r.recovers then coalesce(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn())
    else pg_current_wal_flush_lsn() end - '0/0'::pg_lsn)::bigint
from (select pg_is_in_recovery() as recovers) r

-- replicated --
-- A note in the server's own log, so that the transaction waits for the standbys at its commit. No table grows.
select pg_logical_emit_message(true, 'service', '')

-- log_size --
-- The size of the log.
select size from log_state

-- streams_after --
-- The streams of the events after a position.
select i.position, e.project_id, e.stream_id from log_index i join events e on e.seq = i.seq
where i.position > %s order by i.position limit %s

-- ensure_reader --
-- Begin to read the log, at its start.
insert into checkpoints (name, position) values ('{name}', 0) on conflict do nothing

-- note_topics --
-- Note where each topic came first.
insert into topics_met (topic, first_position) select t.topic, min(t.position)
from unnest(%s::text[], %s::bigint[]) t(topic, position) group by t.topic on conflict do nothing

-- defer_jobs --
-- Defer jobs, of those with one `once` at most one that waits.
select procrastinate_defer_jobs_v1(array_agg(
row(j.queue, j.task, 0, null, j.once, j.args::jsonb, null)::procrastinate_job_to_defer_v1))
from unnest(%s::text[], %s::text[], %s::text[], %s::text[]) j(queue, task, once, args)
where j.once is null or not exists (select 1 from procrastinate_jobs w
where w.queueing_lock = j.once and w.status = 'todo') having count(*) > 0

-- defer_job --
-- Defer a job, unless one with its `once` waits.
select procrastinate_defer_jobs_v1(
    array[row(%s, %s, 0, null, %s, %s, null)::procrastinate_job_to_defer_v1])
where %s::text is null or not exists (select 1 from procrastinate_jobs where queueing_lock = %s and
    status = %s)
