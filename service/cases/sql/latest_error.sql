-- What the latest error of a case, or of one merged into it, says of its frames.
with ids as (
    select c.id from cases c where c.project_id = %(project_id)s and c.id = %(case_id)s
    union all
    select m.id from cases m where m.project_id = %(project_id)s and m.merged_into = %(case_id)s
)
select e.release, e.message, e.extra::text, e.packed
from ids i
cross join lateral (
    select * from log_events l where l.project_id = %(project_id)s and l.case_id = i.id
    order by l.received_at desc, l.id desc limit 1) e
order by e.received_at desc, e.id desc
limit 1
