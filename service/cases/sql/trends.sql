-- How many errors some cases of a list, with those merged into them, had a day since a time: of each the newest ones
-- alone. It is planned for its values: only those days are opened.
with ids as (
    select o.id as shown, o.id from unnest(%(case_ids)s::text[]) as o(id)
    union all
    select m.merged_into, m.id from cases m
    where m.project_id = %(project_id)s and m.merged_into = any(%(case_ids)s::text[])
)
select i.shown, x.day, sum(x.events)::bigint
from ids i
cross join lateral (
    select e.received_at - mod(e.received_at, 86400) as day, count(*) as events
    from (
        select l.received_at from log_events l
        where l.project_id = %(project_id)s and l.case_id = i.id and l.received_at >= %(since)s
        order by l.received_at desc, l.id desc limit %(most)s) e
    group by 1) x
group by 1, 2
