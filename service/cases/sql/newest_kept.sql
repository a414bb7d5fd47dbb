-- When the newest error that is left of some cases, until a time, was received, and that of one of them.
select max(e.received_at), max(e.received_at) filter (where o.id = %(case_id)s)
from unnest(%(case_ids)s::text[]) as o(id)
cross join lateral (
    select l.received_at from log_events l
    where l.project_id = %(project_id)s and l.case_id = o.id and l.received_at <= %(last)s
    order by l.received_at desc limit 1) e
