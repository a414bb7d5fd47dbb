-- Days whose counts of events by name do not add up to the events that are kept or were erased, or to the rows of the
-- names and keys below them. Days before a project's first one here were not counted, or are kept no longer.
with found as (
    select e.project_id, e.received_at - e.received_at %% 86400 as day, count(*) as row_count
    from (
        select a.project_id, a.received_at from analytics_events a
        union all select r.project_id, r.received_at from erased_records r where r.event is not null
    ) e
    group by 1, 2
), names as (
    select n.project_id, n.day, count(*) as names, sum(n.row_count) as row_count from event_name_days n group by 1, 2
), keys as (
    select k.project_id, k.day, count(*) as keys from event_key_days k group by 1, 2
), oldest as (
    select d.project_id, min(d.day) as since from event_days d group by 1
)
select case when d.names is null then 'missing' else 'different' end, project_id,
    to_char(to_timestamp(day) at time zone 'UTC', 'YYYY-MM-DD')
from event_days d
full join found f using (project_id, day)
full join names n using (project_id, day)
full join keys k using (project_id, day)
left join oldest o using (project_id)
where project_id in (
    \ir parts/active.sql
) and (
    d.names is null and (day > o.since or n.names > 0 or k.keys > 0)
    or d.names <> coalesce(n.names, 0) or d.keys <> coalesce(k.keys, 0) or d.names > 1000 or d.keys > 5000
    or d.other_rows > 0 and d.names < 1000
    or coalesce(n.row_count, 0) + d.other_rows > coalesce(f.row_count, 0)
    or d.whole and coalesce(n.row_count, 0) + d.other_rows < coalesce(f.row_count, 0))
order by 2, 3
