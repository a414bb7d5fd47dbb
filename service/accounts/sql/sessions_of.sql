-- A page of the open sessions of a person, newest first.
select row_to_json(t)::text, u.last_used_at
from sessions t left join session_uses u using (project_id, id)
where t.project_id = %(user_id)s and t.status = 'open' and t.expires_at > (select service_seconds())
    and (t.created_at, t.id) < (%(at)s, %(id)s)
order by t.created_at desc, t.id desc
limit %(limit)s
