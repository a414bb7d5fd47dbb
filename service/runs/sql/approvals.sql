-- A page of requests with their runs by the time they were made, newest first: of a run, and of those that are recorded
-- as one of some statuses, where these are not null. Each status is a search of its own, in the order of an index.
select json_build_object('approval', row_to_json(a), 'around',
    \ir parts/run_bundle.sql
)::text
from (
    (select * from approvals
    where %(recorded)s::text[] is null and project_id = %(project_id)s and (requested_at, id) < (%(at)s, %(id)s)
        and (%(run_id)s::text is null or run_id = %(run_id)s)
    order by requested_at desc, id desc limit %(limit)s)
    union all
    (select o.* from unnest(%(recorded)s::text[]) w(status)
    cross join lateral (
        select * from approvals x
        where x.project_id = %(project_id)s and x.status = w.status and (x.requested_at, x.id) < (%(at)s, %(id)s)
            and (%(run_id)s::text is null or x.run_id = %(run_id)s)
        order by x.requested_at desc, x.id desc limit %(limit)s) o)
) a
join automation_runs r on r.project_id = a.project_id and r.id = a.run_id
order by a.requested_at desc, a.id desc
limit %(limit)s
