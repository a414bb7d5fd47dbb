-- Begin attempts: fix each body, and open the way to its receiver, if the claim still holds, the webhook is active and
-- its project has the status. Whoever ends one of these waits for this statement, or it finds nothing (R-WEB-09).
with asked as (
    select * from unnest(%(project_id)s::text[], %(webhook_id)s::text[], %(position)s::bigint[], %(epoch)s::bigint[],
        %(body)s::text[], %(project_status)s::text[])
        a(project_id, webhook_id, position, epoch, body, project_status)
), standing as (
    select w.project_id, w.id, p.status from webhooks w
    join projects p on p.project_id = w.project_id and p.id = w.project_id
    where (w.project_id, w.id) in (select a.project_id, a.webhook_id from asked a) and w.status = 'active'
    for share of w, p skip locked
), locked as (
    select d.project_id, d.webhook_id, d.position, a.body from asked a
    join standing s on s.project_id = a.project_id and s.id = a.webhook_id and s.status = a.project_status
    join webhook_deliveries d
        on d.project_id = a.project_id and d.webhook_id = a.webhook_id and d.position = a.position
    where d.epoch = a.epoch and d.due_ms is not null
    order by d.project_id, d.webhook_id, d.position
    for update of d
)
update webhook_deliveries d set body = coalesce(d.body, l.body)
from locked l
join webhook_targets t on t.project_id = l.project_id and t.id = l.webhook_id
where d.project_id = l.project_id and d.webhook_id = l.webhook_id and d.position = l.position
returning d.project_id, d.webhook_id, d.position, d.body, t.url, t.secret,
    case when t.former_until > (select service_seconds()) then t.former_secret end
