-- People of cases whose counters do not agree with the errors that are kept.
with counted as (
    select e.project_id, e.case_id, e.user_id, count(*) as errors
    from log_events e where e.case_id is not null and e.user_id is not null group by 1, 2, 3
)
select case when u.user_id is null then 'missing' else 'different' end, project_id, case_id || ' ' || user_id
from case_users u
full join counted k using (project_id, case_id, user_id)
join (select project_id, id as case_id, sample from case_stats) s using (project_id, case_id)
where project_id in (
    \ir parts/active.sql
) and (
    coalesce(u.error_count, 0) < coalesce(k.errors, 0)
    or s.sample is null and u.error_count is distinct from k.errors)
order by 2, 3
