-- A page of the other open cases in the order of looks: those with errors from before a moment left, or those without.
-- Where errors by the public DSN are not accepted, the counts are those of the others.
select s.id, s.event_count, s.last_seen_at
from (
    select c.project_id, c.id,
        c.event_count - case when p.accepts then 0 else c.public_count end as event_count,
        case when p.accepts or c.public_count = 0 then c.last_seen_at
            else coalesce(c.server_last_seen_at, 0) end as last_seen_at
    from (select accepts_public(project => %(project_id)s) as accepts) p, case_stats c
    where c.project_id = %(project_id)s and (p.accepts or c.public_count < c.event_count)
) s
join cases c on c.project_id = s.project_id and c.id = s.id and c.status = 'open'
left join (
    select distinct e.case_id from log_events e
    where e.project_id = %(project_id)s and e.case_id is not null and e.received_at <= %(start)s
) k on k.case_id = s.id
where s.project_id = %(project_id)s and (k.case_id is not null) = %(kept)s and s.id <> all(%(changed)s::text[])
    and (-s.event_count, -s.last_seen_at, s.id) > (%(after_count)s, %(after_seen)s, %(after_id)s)
order by -s.event_count, -s.last_seen_at, s.id
limit %(most)s
