-- Which values a property of an event had in a period: rows and people by value, most rows first, and all rows of the
-- event. A value is a text of at most so many characters; null stands for a property that is not there, null, or no
-- scalar.
select p.value, sum(p.times)::bigint, count(*), (sum(sum(p.times)) over ())::bigint
from (
    select case when jsonb_typeof(e.properties -> %(property)s::text) in ('string', 'number', 'boolean')
        then left(e.properties ->> %(property)s::text, %(characters)s) end as value, count(*) as times
    from analytics_events e
    \ir parts/names.sql
    where e.project_id = %(project_id)s and e.event = %(event)s
        and
        \ir parts/within.sql
    group by 1,
    \ir parts/person.sql
    ) p
group by p.value
order by 2 desc, p.value collate "C" nulls last
limit %(most)s
