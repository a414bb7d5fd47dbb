-- The keys of a person, or of everybody, newest first, for an operator.
select row_to_json(t)::text, coalesce(p.email, ''), u.last_used_at
from api_keys t
left join people p on p.project_id = t.project_id and p.id = t.project_id
left join key_uses u on u.project_id = t.project_id and u.id = t.id
where %(user_id)s::text is null or t.project_id = %(user_id)s
order by t.created_at desc, t.id desc
