-- A page of the members of a project, newest first, with its auditors.
select m.user_id, coalesce(p.email, ''), m.role, m.created_at, m.id
from (
    (select user_id, role, created_at, id from memberships
        where project_id = %(project_id)s and (created_at, id) < (%(at)s, %(id)s)
        order by created_at desc, id desc limit %(limit)s)
    union all
    (select user_id, 'auditor', created_at, id from auditors
        where project_id = %(project_id)s and (created_at, id) < (%(at)s, %(id)s)
        order by created_at desc, id desc limit %(limit)s)
) m left join people p on p.project_id = m.user_id and p.id = m.user_id
order by m.created_at desc, m.id desc
limit %(limit)s
