-- How often an event was received, and from how many people. To group by person first takes half the time of counting
-- the different ones, which sorts all rows.
select coalesce(sum(p.times), 0)::bigint, count(*)
from (
    select count(*) as times
    from analytics_events e
    \ir parts/names.sql
    where e.project_id = %(project_id)s and e.event = %(event)s
        and
        \ir parts/within.sql
    group by
    \ir parts/person.sql
    ) p
limit %(most)s
