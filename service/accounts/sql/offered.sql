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
