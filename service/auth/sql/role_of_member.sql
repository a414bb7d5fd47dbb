-- What a person is in a project, and how the project stands. Auditors have a table of their own.
select m.role, owned_status(project => p.project_id, status => p.status)
from projects p
join (
    select role from memberships where project_id = %(project_id)s and id = %(membership_id)s
    union all
    select 'auditor' from auditors where project_id = %(project_id)s and id = %(membership_id)s
) m on true
where p.project_id = %(project_id)s and p.id = %(project_id)s
