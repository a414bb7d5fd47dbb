-- The jobs that failed, wait or run, the failed ones first.
select j.id, j.task_name, j.status::text, j.attempts,
    (select floor(extract(epoch from max(e.at)))::bigint from procrastinate_events e where e.job_id = j.id),
    floor(extract(epoch from j.scheduled_at))::bigint
from procrastinate_jobs j
where j.status in ('failed', 'todo', 'doing')
order by j.status = 'failed' desc, j.id
limit %(most)s
