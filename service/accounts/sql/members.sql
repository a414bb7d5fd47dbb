-- The members of a project, oldest first, with its auditors. There is a limit to how many there are.
select m.user_id, coalesce(p.email, ''), m.role, m.created_at
from (
    select user_id, role, created_at from memberships where project_id = %(project_id)s
    union all
    select user_id, 'auditor', created_at from auditors where project_id = %(project_id)s
) m left join people p on p.project_id = m.user_id and p.id = m.user_id
order by m.created_at, m.user_id
