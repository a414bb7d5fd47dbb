-- The names of a project's events since a time, most rows first, with the people who had them; and since when rows are
-- counted, and whether any have a name that is not counted. People are counted from rows, of the names with the fewest
-- first, until these are too many: null beyond.
with
\ir parts/names_counted.sql
, found as (
    select e.event, count(*) as row_count, min(e.received_at) as first_at, max(e.received_at) as last_at
    from analytics_events e
    where e.project_id = %(project_id)s and e.received_at >= %(since)s
        and e.received_at >= (select c.since from counted c) and e.received_at < (select c.summed from counted c)
    group by e.event
    union all
    select n.event, sum(n.row_count), min(n.first_at), max(n.last_at)
    from event_name_days n
    where n.project_id = %(project_id)s and n.day >= (select c.summed from counted c)
    group by n.event
), names as (
    select f.event, sum(f.row_count)::bigint as row_count, min(f.first_at) as first_at, max(f.last_at) as last_at
    from found f group by f.event order by row_count desc, f.event limit %(limit)s
), ordered as (
    select n.*, sum(n.row_count) over (order by n.row_count, n.event) as looked from names n
)
select c.since, exists (
        select from event_days d
        where d.project_id = %(project_id)s and d.day >= c.summed and d.other_rows > 0
    ), o.event, o.row_count, case when o.looked <= %(most_of_people)s then (
        select count(*) from (
            select distinct
            \ir blueprints/parts/person.sql
            from analytics_events e
            \ir blueprints/parts/names.sql
            where e.project_id = %(project_id)s and e.event = o.event and e.received_at >= %(since)s
                and e.received_at >= c.since) p
    ) end, o.first_at, o.last_at
from counted c left join ordered o on true
order by o.row_count desc, o.event
