-- What is counted of cases in all, among the errors that are kept from before a moment, and after it. Where errors by
-- the public DSN are not accepted, those of the others count alone.
select s.id, case when s.apart then s.event_count - s.public_count else s.event_count end, s.first_seen_at,
    case when s.apart then s.server_unmarked else s.unmarked end,
    case when s.apart then s.server_environments else s.environments end, n.number, n.last_seen_at, n.unmarked,
    n.environments, coalesce(l.number, 0)
from (
    select c.*, c.public_count > 0 and not p.accepts as apart
    from (select accepts_public(project => %(project_id)s) as accepts) p, case_stats c
    where c.project_id = %(project_id)s and c.id = any(%(case_ids)s::text[])
) s
left join (
    select e.case_id, count(*) as number, max(e.received_at) as last_seen_at,
        bool_or(e.marker_hash is null) as unmarked, array_agg(distinct e.environment) as environments
    from log_events e
    where e.project_id = %(project_id)s and e.case_id = any(%(case_ids)s::text[]) and e.received_at <= %(start)s
        and (not e.public or accepts_public(project => %(project_id)s))
    group by 1
) n on n.case_id = s.id
left join (
    select e.case_id, count(*) as number
    from log_events e
    where e.project_id = %(project_id)s and e.case_id = any(%(case_ids)s::text[]) and e.received_at > %(start)s
        and (not e.public or accepts_public(project => %(project_id)s))
    group by 1
) l on l.case_id = s.id
