-- The members of a project, oldest first. There is a limit to how many there are.
select m.user_id, coalesce(p.email, ''), m.role, m.created_at
from memberships m left join people p on p.project_id = m.user_id and p.id = m.user_id
where m.project_id = %(project_id)s
order by m.created_at, m.user_id
