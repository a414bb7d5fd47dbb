-- A page of the keys of a person, live and revoked, newest first.
select row_to_json(t)::text, u.last_used_at
from api_keys t left join key_uses u using (project_id, id)
where t.project_id = %(user_id)s and (t.created_at, t.id) < (%(at)s, %(id)s)
order by t.created_at desc, t.id desc
limit %(limit)s
