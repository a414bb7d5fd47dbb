-- What the newest errors of some cases, so many, have in common: how many were counted and since when, and the names of
-- most errors with their most frequent values. It is planned for its values: only the days between are opened.
with newest as materialized (
    select e.received_at, e.id, e.environment, e.release, e.tags from unnest(%(case_ids)s::text[]) as o(id)
    cross join lateral (
        select * from log_events e
        where e.project_id = %(project_id)s and e.case_id = o.id
            and e.received_at >= %(low)s and e.received_at <= %(high)s
        order by e.received_at desc, e.id desc limit %(most)s) e
    order by e.received_at desc, e.id desc limit %(most)s
), told as (
    select 'environment' as name, n.environment as value from newest n
    union all
    select 'release', n.release from newest n where n.release <> ''
    union all
    select t.key, t.value from newest n cross join lateral jsonb_each_text(n.tags) t
    where t.key not in ('environment', 'release')
), counted as (
    select t.name, t.value, count(*) as errors from told t where t.value is not null group by 1, 2
), ranked as (
    select c.*, row_number() over (partition by c.name order by c.errors desc, c.value) as place,
        sum(c.errors) over (partition by c.name)::bigint as named, count(*) over (partition by c.name) as different
    from counted c
), shown as (
    select r.*, dense_rank() over (order by r.named desc, r.name) as name_place from ranked r
)
select (select count(*) from newest), (select min(n.received_at) from newest n), s.name, s.named, s.different, s.value,
    s.errors
from (select 1) one
left join (
    select * from shown s where s.place <= %(values)s and s.name_place <= %(names)s
) s on true
order by s.name_place, s.place
