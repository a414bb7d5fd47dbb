-- Begin an attempt: fix the body, and open the way to the receiver, if the claim still holds, the webhook is active and
-- its project has this status. Whoever ends one of these waits for this statement, or it finds nothing (R-WEB-09).
with standing as (
    select w.project_id, w.id from webhooks w
    join projects p on p.project_id = w.project_id and p.id = w.project_id and p.status = %(project_status)s
    where w.project_id = %(project_id)s and w.id = %(webhook_id)s and w.status = 'active'
    for share of w, p skip locked
)
update webhook_deliveries d set body = coalesce(d.body, %(body)s)
from standing s
join webhook_targets t on t.project_id = s.project_id and t.id = s.id
where d.project_id = s.project_id and d.webhook_id = s.id and d.position = %(position)s
    and d.epoch = %(epoch)s and d.due_ms is not null
returning d.body, t.url, t.secret,
    case when t.former_until > (select service_seconds()) then t.former_secret end
