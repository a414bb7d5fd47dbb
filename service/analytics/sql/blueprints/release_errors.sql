-- How many errors some releases had in a period, in an environment or in all, and from how many people.
select e.release, count(*), count(distinct
\ir parts/person_in_error.sql
)
from log_events e
\ir parts/names_in_errors.sql
where e.project_id = %(project_id)s and
\ir parts/within.sql
    and e.case_id is not null and e.release = any(%(releases)s::text[])
    and (%(environment)s::text is null or e.environment = %(environment)s)
group by e.release
limit %(most)s
