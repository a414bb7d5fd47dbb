-- The errors of cases since a moment, by the second: of those by the public DSN only what is accepted.
select e.received_at, e.case_id, count(*), bool_or(e.marker_hash is null), array_agg(distinct e.environment)
from log_events e
where e.project_id = %(project_id)s and e.case_id is not null and e.received_at > %(start)s
    and (not e.public or accepts_public(project => %(project_id)s))
group by 1, 2
order by 1, 2
