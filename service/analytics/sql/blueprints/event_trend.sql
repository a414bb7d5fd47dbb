-- How often an event came on each UTC day of a period, and from how many people; days without it are left out.
select p.day, sum(p.times)::bigint, count(*)
from (
    select
    \ir parts/day.sql
    as day, count(*) as times
    from analytics_events e
    \ir parts/names.sql
    where e.project_id = %(project_id)s and e.event = %(event)s
        and
        \ir parts/within.sql
    group by 1,
    \ir parts/person.sql
    ) p
group by p.day
order by p.day
limit %(most)s
