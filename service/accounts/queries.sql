-- keys_of --
-- A page of the keys of a person, live and revoked, newest first.
select row_to_json(t)::text, u.last_used_at
from api_keys t left join key_uses u using (project_id, id)
where t.project_id = %(user_id)s and (t.created_at, t.id) < (%(at)s, %(id)s)
order by t.created_at desc, t.id desc
limit %(limit)s

-- sessions_of --
-- A page of the open sessions of a person, newest first.
select row_to_json(t)::text, u.last_used_at
from sessions t left join session_uses u using (project_id, id)
where t.project_id = %(user_id)s and t.status = 'open' and t.expires_at > (select service_seconds())
    and (t.created_at, t.id) < (%(at)s, %(id)s)
order by t.created_at desc, t.id desc
limit %(limit)s

-- all_keys --
-- The keys of a person, or of everybody, newest first, for an operator.
select row_to_json(t)::text, coalesce(p.email, ''), u.last_used_at
from api_keys t
left join people p on p.project_id = t.project_id and p.id = t.project_id
left join key_uses u on u.project_id = t.project_id and u.id = t.id
where %(user_id)s::text is null or t.project_id = %(user_id)s
order by t.created_at desc, t.id desc

-- feedback --
-- The latest feedback of everybody, for an operator: by the last time that each was sent.
select row_to_json(f)::text from feedback f order by f.last_at desc, f.project_id desc, f.id desc limit %(limit)s

-- members --
-- The members of a project, oldest first, with its auditors. There is a limit to how many there are.
select m.user_id, coalesce(p.email, ''), m.role, m.created_at
from (
    select user_id, role, created_at from memberships where project_id = %(project_id)s
    union all
    select user_id, 'auditor', created_at from auditors where project_id = %(project_id)s
) m left join people p on p.project_id = m.user_id and p.id = m.user_id
order by m.created_at, m.user_id

-- members_page --
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

-- offered --
-- An invitation with the project's name and the row of the person who asks: one that can be accepted, or that this
-- person has accepted. An account that was deleted since takes it along, also when its person comes back.
-- (`offset 0` has one membership looked up, and not all of them at once.)
select row_to_json(t)::text, p.name, row_to_json(u)::text
from invitations t
join projects p on p.project_id = t.project_id and p.id = t.project_id and p.status = 'active'
join people u on u.project_id = %(user_id)s and u.id = u.project_id
where t.id = %(invitation_id)s
    and (invitation_stands(project => t.project_id, invitation => t.id)
        or t.status = 'accepted' and t.accepted_by = u.id
            and (exists (select from memberships m where m.project_id = t.project_id and m.user_id = u.id offset 0)
                or exists (select from auditors m where m.project_id = t.project_id and m.user_id = u.id offset 0)))
    and not exists (select from deletions d where d.scope_id = u.id and d.fenced_at >= t.invited_at)
limit 1
