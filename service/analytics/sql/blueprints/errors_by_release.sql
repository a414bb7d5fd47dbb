-- How many errors each release had, and how many people met them; null for errors that name no release. Errors without
-- a person are of nobody.
select p.release, sum(p.errors)::bigint, count(p.person), min(p.earliest), max(p.latest)
from (
    select e.release,
    \ir parts/person_in_error.sql
    as person, count(*) as errors, min(
    \ir parts/moment.sql
    ) as earliest, max(
    \ir parts/moment.sql
    ) as latest
    from log_events e
    \ir parts/names_in_errors.sql
    where e.project_id = %(project_id)s and e.case_id is not null
        and
        \ir parts/within.sql
        and (%(environment)s::text is null or e.environment = %(environment)s)
    group by 1, 2) p
group by p.release
order by 2 desc, 1 nulls last
limit %(most)s
