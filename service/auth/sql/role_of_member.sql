-- What a person is in a project, and how the project stands.
select m.role, owned_status(project => p.project_id, status => p.status)
from memberships m join projects p on p.project_id = m.project_id and p.id = m.project_id
where m.project_id = %(project_id)s and m.id = %(membership_id)s
