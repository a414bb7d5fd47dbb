-- When an error of some cases was received. Of each case so many are looked at, newest first: no index knows an error
-- by its id alone. (How many is asked of a statement of its own, which the planner does not know the answer of. So it
-- merges the days, in the order of their indexes. It would sort all errors of a case that has more than others.)
select e.received_at
from unnest(%(case_ids)s::text[]) as o(id)
cross join lateral (
    select e.received_at, e.id from log_events e
    where e.project_id = %(project_id)s and e.case_id = o.id and e.received_at >= %(low)s and e.received_at <= %(high)s
    order by e.received_at desc, e.id desc limit (select %(most)s::bigint)) e
where e.id = %(id)s
limit 1
