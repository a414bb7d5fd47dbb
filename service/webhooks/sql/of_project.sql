-- All webhooks of a project with what lies beside them, newest first. There are few.
select row_to_json(w)::text, row_to_json(t)::text, s.stage, s.last_status, s.last_error, s.last_delivered_at
from webhooks w
join webhook_targets t on t.project_id = w.project_id and t.id = w.id
left join webhook_standings s on s.project_id = w.project_id and s.id = w.id
where w.project_id = %(project_id)s and (%(id)s::text is null or w.id = %(id)s)
order by w.created_at desc, w.id desc
