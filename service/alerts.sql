-- of_project --
-- The alerts of a project, or one of them, each with its latest look, newest first. There is a limit to how many there
-- are.
select row_to_json(a)::text, row_to_json(l)::text, (select service_seconds())
from alerts a
join alert_looks l on l.project_id = a.project_id and l.id = a.id
where a.project_id = %(project_id)s and (%(id)s::text is null or a.id = %(id)s)
order by a.created_at desc, a.id desc

-- due --
-- The alerts of a project whose evaluation is due, in the order of how long, and the account that they count for.
select row_to_json(a)::text, paying_account(project => p.project_id, maker => p.created_by)
from alert_looks l
join alerts a on a.project_id = l.project_id and a.id = l.id
join projects p on p.project_id = l.project_id and p.id = l.project_id
where l.project_id = %(project_id)s and l.due_at <= (select service_seconds())
order by l.due_at, l.id

-- now --
-- The time in microseconds since the epoch.
select (extract(epoch from (select service_now())) * 1000000)::bigint
