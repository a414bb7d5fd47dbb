-- How a project stands.
select owned_status(project => p.project_id, status => p.status)
from projects p
where p.project_id = %(project_id)s and p.id = %(project_id)s
