-- Names of events that are counted otherwise than their events are kept, on days that are counted. On a day that was
-- not counted from its beginning, at most as many are counted as are kept.
with found as (
    select e.project_id, e.received_at - e.received_at %% 86400 as day, e.event, count(*) as row_count,
        min(e.received_at) as first_at, max(e.received_at) as last_at
    from (
        select a.project_id, a.received_at, a.event from analytics_events a
        union all select r.project_id, r.received_at, r.event from erased_records r where r.event is not null
    ) e
    group by 1, 2, 3
)
select case when n.row_count is null then 'missing' when f.row_count is null then 'extra' else 'different' end,
    project_id, to_char(to_timestamp(day) at time zone 'UTC', 'YYYY-MM-DD') || ' ' || event
from event_name_days n
full join found f using (project_id, day, event)
join event_days d using (project_id, day)
where project_id in (
    \ir parts/active.sql
) and (
    n.row_count is null and d.whole and d.other_rows = 0
    or n.row_count is not null and f.row_count is null
    or n.row_count > f.row_count or n.last_at <> f.last_at or n.first_at < f.first_at
    or d.whole and (n.row_count < f.row_count or n.first_at > f.first_at))
order by 2, 3
