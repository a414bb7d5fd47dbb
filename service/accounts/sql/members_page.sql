-- A page of the members of a project, newest first.
select m.user_id, coalesce(p.email, ''), m.role, m.created_at, m.id
from memberships m left join people p on p.project_id = m.user_id and p.id = m.user_id
where m.project_id = %(project_id)s and (m.created_at, m.id) < (%(at)s, %(id)s)
order by m.created_at desc, m.id desc
limit %(limit)s
