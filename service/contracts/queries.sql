-- enabled --
-- Every project with an enabled contract, but for those that are being deleted: in these nothing can begin any more.
select k.project_id
from automation_contracts k
where k.status = 'enabled' and exists (
    select from projects p where p.project_id = k.project_id and p.id = k.project_id and p.status = 'active')
order by k.project_id

-- observed --
-- Those of some event names that a project has sent.
select name
from unnest(%(names)s::text[]) name
where exists (select from analytics_events e where e.project_id = %(project_id)s and e.event = name)

-- cases_with_most_errors --
-- The open cases of a project with an error in an environment, those with most errors first.
select c.id
from cases c
join case_stats s on s.project_id = c.project_id and s.id = c.id
where c.project_id = %(project_id)s and c.status = 'open' and %(environment)s::text = any(s.environments)
order by s.event_count desc, c.id
limit %(most)s
