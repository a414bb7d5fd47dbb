-- Keys of properties that are counted otherwise than the events are kept that have them, on days that are counted; and
-- such days whose properties do not add up. On a day that was not counted from its beginning, at most as many are
-- counted as are kept. Nobody knows the keys of what was erased: such days are passed over.
with found as (
    select e.project_id, e.received_at - e.received_at %% 86400 as day, e.event, e.key, count(*) as row_count,
        bit_or(case e.type when 'array' then 1 when 'boolean' then 2 when 'null' then 4 when 'number' then 8
            when 'object' then 16 else 32 end) as types
    from event_properties e group by 1, 2, 3, 4
), compared as (
    select project_id, day, event, key, k.row_count as counted, k.types, f.row_count as found, f.types as types_found,
        d.whole, d.other_values
    from event_key_days k
    full join found f using (project_id, day, event, key)
    join event_days d using (project_id, day)
    where (project_id, day) not in (
        select r.project_id, r.received_at - r.received_at %% 86400 from erased_records r where r.event is not null)
), different as (
    select case when c.counted is null then 'missing' when c.found is null then 'extra' else 'different' end as what,
        c.project_id, c.day, ' ' || c.event || ' ' || c.key as name
    from compared c
    where c.counted is null and c.whole and c.other_values = 0
        or c.counted is not null and c.found is null
        or c.counted > c.found or c.types & ~c.types_found <> 0
        or c.whole and (c.counted < c.found or c.types <> c.types_found)
    union all
    select 'different', c.project_id, c.day, ''
    from compared c
    where c.whole
    group by c.project_id, c.day, c.other_values
    having coalesce(sum(c.counted), 0) + c.other_values <> coalesce(sum(c.found), 0)
)
select d.what, d.project_id, to_char(to_timestamp(d.day) at time zone 'UTC', 'YYYY-MM-DD') || d.name
from different d
where d.project_id in (
    \ir parts/active.sql
)
order by 2, 3
