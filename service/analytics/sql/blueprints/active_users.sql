-- How many people had an event on each UTC day of a period; days without any are left out.
select p.day, count(*)
from (
    select
    \ir parts/day.sql
    as day,
    \ir parts/person.sql
    as person
    from analytics_events e
    \ir parts/names.sql
    where e.project_id = %(project_id)s and
    \ir parts/within.sql
    group by 1, 2) p
group by p.day
order by p.day
limit %(most)s
