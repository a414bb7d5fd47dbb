-- The cases with most errors in a period, in an environment or in all: errors, people and the last one. Errors of a
-- case that was merged are those of the case that it was merged into.
select coalesce(c.merged_into, m.case_id), sum(m.errors)::bigint, count(distinct m.person), max(m.last)
from (
    select e.case_id,
    \ir parts/person_in_error.sql
    as person, count(*) as errors, max(
    \ir parts/moment.sql
    ) as last
    from log_events e
    \ir parts/names_in_errors.sql
    where e.project_id = %(project_id)s and
    \ir parts/within.sql
        and e.case_id is not null and (%(environment)s::text is null or e.environment = %(environment)s)
    group by 1, 2) m
left join cases c on c.project_id = %(project_id)s and c.id = m.case_id
group by 1
order by 2 desc, 1
limit %(most)s
