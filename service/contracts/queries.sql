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
