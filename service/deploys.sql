-- payer --
-- The account that pays for a project.
select paying_account(project => p.id, maker => p.created_by)
from projects p
where p.project_id = %(project_id)s and p.id = %(project_id)s

-- newest --
-- A page of the deploys of a project, newest first.
select row_to_json(d)::text, n.message
from deploys d left join deploy_notes n on n.project_id = d.project_id and n.id = d.id
where d.project_id = %(project_id)s and (d.recorded_at, d.id) < (%(at)s, %(id)s)
order by d.recorded_at desc, d.id desc
limit %(limit)s

-- newest_of_environment --
-- A page of the deploys of a project to one environment, newest first.
select row_to_json(d)::text, n.message
from deploys d left join deploy_notes n on n.project_id = d.project_id and n.id = d.id
where d.project_id = %(project_id)s and (d.recorded_at, d.id) < (%(at)s, %(id)s) and d.environment = %(environment)s
order by d.recorded_at desc, d.id desc
limit %(limit)s
