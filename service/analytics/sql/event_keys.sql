-- The keys of the properties of a project's events since a time (of all, or of some names), most rows first, with the
-- JSON types of their values as bits; and since when rows are counted, and whether any have a key that is not counted.
with
\ir parts/names_counted.sql
, found as (
    select e.event, k.key, count(*) as row_count, bit_or(case jsonb_typeof(k.value) when 'array' then 1
        when 'boolean' then 2 when 'null' then 4 when 'number' then 8 when 'object' then 16 else 32 end) as types
    from analytics_events e cross join lateral jsonb_each(e.properties) k
    where e.project_id = %(project_id)s and e.received_at >= %(since)s
        and e.received_at >= (select c.since from counted c) and e.received_at < (select c.summed from counted c)
        and (%(events)s::text[] is null or e.event = any(%(events)s::text[])) and length(k.key) <= %(longest)s
    group by e.event, k.key
    union all
    select k.event, k.key, sum(k.row_count), bit_or(k.types)
    from event_key_days k
    where k.project_id = %(project_id)s and k.day >= (select c.summed from counted c)
        and (%(events)s::text[] is null or k.event = any(%(events)s::text[]))
    group by k.event, k.key
), keys as (
    select f.event, f.key, sum(f.row_count)::bigint as row_count, bit_or(f.types) as types
    from found f where f.key <> %(hidden)s
    group by f.event, f.key order by row_count desc, f.event, f.key limit %(limit)s
)
select c.since, exists (
        select from event_days d
        where d.project_id = %(project_id)s and d.day >= c.summed and d.other_values > 0
    ), k.event, k.key, k.row_count, k.types
from counted c left join keys k on true
order by k.row_count desc, k.event, k.key
