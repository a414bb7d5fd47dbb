-- How many people met an error on each UTC day of a period, in an environment or in all; days without any are left out.
select p.day, count(*)
from (
    select
    \ir parts/day.sql
    as day,
    \ir parts/person_in_error.sql
    as person
    from log_events e
    \ir parts/names_in_errors.sql
    where e.project_id = %(project_id)s and
    \ir parts/within.sql
        and e.case_id is not null and e.user_id is not null
        and (%(environment)s::text is null or e.environment = %(environment)s)
    group by 1, 2) p
group by p.day
order by p.day
limit %(most)s
