-- The events of a project by how often they were received.
select p.event, sum(p.times)::bigint, count(*), max(p.latest)
from (
    select e.event, count(*) as times, max(
    \ir parts/moment.sql
    ) as latest
    from analytics_events e
    \ir parts/names.sql
    where e.project_id = %(project_id)s and
    \ir parts/within.sql
    group by e.event,
    \ir parts/person.sql
    ) p
group by p.event
order by 2 desc, 1
limit %(most)s
