-- How many errors of some cases of a list, and of those merged into them, happened on each day since a time: of each
-- the newest received alone. None was received before it happened. Where the connected provider counted more on a day,
-- its number is told. It is planned for its values: only those days are opened.
with ids as (
    select o.id as shown, o.id from unnest(%(case_ids)s::text[]) as o(id)
    union all
    select m.merged_into, m.id from cases m
    where m.project_id = %(project_id)s and m.merged_into = any(%(case_ids)s::text[])
)
select i.shown, x.day, greatest(sum(x.events), sum(x.provided))::bigint
from ids i
cross join lateral (
    select e.happened - mod(e.happened, 86400) as day, count(*) as events, 0 as provided
    from (
        select coalesce(l.occurred_at, l.received_at) as happened from log_events l
        where l.project_id = %(project_id)s and l.case_id = i.id and l.received_at >= %(since)s
        order by l.received_at desc, l.id desc limit %(most)s) e
    where e.happened >= %(since)s
    group by 1
    union all
    select p.minute - mod(p.minute, 86400), 0, sum(p.errors)
    from provider_counts p
    where p.project_id = %(project_id)s and p.case_id = i.id and p.minute >= %(since)s
    group by 1) x
group by 1, 2
