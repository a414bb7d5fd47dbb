-- The alerts of a project whose evaluation is due, in the order of how long, and the account that they count for.
select row_to_json(a)::text, paying_account(project => p.project_id, maker => p.created_by)
from alert_looks l
join alerts a on a.project_id = l.project_id and a.id = l.id
join projects p on p.project_id = l.project_id and p.id = l.project_id
where l.project_id = %(project_id)s and l.due_at <= (select service_seconds())
order by l.due_at, l.id
