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
