-- The alerts of a project, or one of them, each with its latest look, newest first. There is a limit to how many there
-- are.
select row_to_json(a)::text, row_to_json(l)::text, (select service_seconds())
from alerts a
join alert_looks l on l.project_id = a.project_id and l.id = a.id
where a.project_id = %(project_id)s and (%(id)s::text is null or a.id = %(id)s)
order by a.created_at desc, a.id desc
