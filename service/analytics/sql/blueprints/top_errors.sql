-- The cases with most errors in a period, in an environment or in all: errors, people, the last one, and where they
-- come from. Errors of a case that was merged are those of the case that it was merged into. What came by DSN and what
-- the connected provider counted stand apart, and the greater is shown (G-182).
select coalesce(c.merged_into, m.case_id),
    greatest(sum(m.errors), sum(m.provided))::bigint, greatest(count(distinct m.person), max(m.people)), max(m.last),
    case when sum(m.provided) = 0 then 'local' when sum(m.errors) = 0 then 'provider_cloud' else 'both' end
from (
    select e.case_id,
    \ir parts/person_in_error.sql
    as person, count(*) as errors, max(
    \ir parts/moment.sql
    ) as last, 0 as provided, 0 as people
    from log_events e
    \ir parts/names_in_errors.sql
    where e.project_id = %(project_id)s and
    \ir parts/within.sql
        and e.case_id is not null and (%(environment)s::text is null or e.environment = %(environment)s)
    group by 1, 2
    union all
    select p.case_id, null, 0, max(p.last_at), sum(p.errors), max(p.people)
    from provider_counts p
    where p.project_id = %(project_id)s and p.minute > %(since)s - 60 and p.minute < %(until)s
        and p.last_at >= %(since)s and (%(environment)s::text is null or p.environment = %(environment)s)
    group by p.case_id) m
left join cases c on c.project_id = %(project_id)s and c.id = m.case_id
group by 1
order by 2 desc, 1
limit %(most)s
