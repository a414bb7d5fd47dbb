-- Who had an event on a day and another on a later day of the period: by both days, how many people.
with began as (
    select
    \ir parts/person.sql
    as person,
    \ir parts/day.sql
    as day
    from analytics_events e
    \ir parts/names.sql
    where e.project_id = %(project_id)s and e.event = %(start_event)s
        and
        \ir parts/within.sql
    group by 1, 2
), returned as (
    select
    \ir parts/person.sql
    as person,
    \ir parts/day.sql
    as day
    from analytics_events e
    \ir parts/names.sql
    where e.project_id = %(project_id)s and e.event = %(return_event)s
        and
        \ir parts/within.sql
    group by 1, 2
)
select b.day, r.day, count(*)
from began b join returned r on r.person = b.person and r.day > b.day
group by b.day, r.day
order by b.day, r.day
limit %(most)s
