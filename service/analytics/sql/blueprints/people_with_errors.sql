-- How many people met an error on each UTC day of a period, in an environment or in all; days without any are left out.
select p.day, count(*)
from (
    select e.received_at - e.received_at %% 86400 as day,
    \ir parts/person_in_error.sql
    as person
    from log_events e
    \ir parts/names_in_errors.sql
    where e.project_id = %(project_id)s and e.received_at >= %(since)s and e.received_at < %(until)s
        and e.case_id is not null and e.user_id is not null
        and (%(environment)s::text is null or e.environment = %(environment)s)
    group by 1, 2) p
group by p.day
order by p.day
limit %(most)s
