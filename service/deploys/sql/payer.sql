-- The account that pays for a project.
select paying_account(project => p.id, maker => p.created_by)
from projects p
where p.project_id = %(project_id)s and p.id = %(project_id)s
