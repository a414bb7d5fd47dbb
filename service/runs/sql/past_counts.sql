-- What is counted of cases in all, among the errors that are kept from before a moment, and after it.
select s.id, s.event_count, s.first_seen_at, s.unmarked, s.environments, n.number, n.last_seen_at, n.unmarked,
    n.environments, coalesce(l.number, 0)
from case_stats s
left join (
    select e.case_id, count(*) as number, max(e.received_at) as last_seen_at,
        bool_or(e.marker_hash is null) as unmarked, array_agg(distinct e.environment) as environments
    from log_events e
    where e.project_id = %(project_id)s and e.case_id = any(%(case_ids)s::text[]) and e.received_at <= %(start)s
    group by 1
) n on n.case_id = s.id
left join (
    select e.case_id, count(*) as number
    from log_events e
    where e.project_id = %(project_id)s and e.case_id = any(%(case_ids)s::text[]) and e.received_at > %(start)s
    group by 1
) l on l.case_id = s.id
where s.project_id = %(project_id)s and s.id = any(%(case_ids)s::text[])
