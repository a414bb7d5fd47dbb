-- Errors of the last days of a project that are in cases, newest first from a place on: what grouping looks at, and the
-- title of the case.
select e.received_at, e.id, e.case_id, e.message, e.extra::text, e.packed, s.title, e.level,
    e.environment, e.release, e.tags::text
from log_events e
left join case_stats s on s.project_id = e.project_id and s.id = e.case_id
where e.project_id = %(project_id)s and e.case_id is not null
    and (e.received_at, e.id) < (%(at)s, %(id)s) and e.received_at >= (select service_seconds()) - %(days)s * 86400
order by e.received_at desc, e.id desc
limit %(limit)s
