-- newest --
-- A page of the credentials of a project with their last use, newest first.
select row_to_json(t)::text, u.last_used_at
from credentials t left join credential_uses u using (project_id, id)
where t.project_id = %(project_id)s and (t.created_at, t.id) < (%(at)s, %(id)s)
order by t.created_at desc, t.id desc
limit %(limit)s
