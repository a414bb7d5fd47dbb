-- Errors of some cases after a place, newest first, received at `low` or later. It is planned for its values: only the
-- days between are opened.
select
\ir parts/event.sql
from unnest(%(case_ids)s::text[]) as o(id)
cross join lateral (
    select * from log_events e
    where e.project_id = %(project_id)s and e.case_id = o.id and e.received_at >= %(low)s and e.received_at <= %(at)s
        and (e.received_at, e.id) < (%(at)s, %(id)s)
    order by e.received_at desc, e.id desc limit %(limit)s) e
order by e.received_at desc, e.id desc
limit %(limit)s
