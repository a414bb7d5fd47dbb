-- Queue a delivery again, with its body, if the webhook is active and its project stands, and unless the same keyed
-- request has done so. An attempt under way goes on, and its outcome is not noted.
with standing as (
    select w.project_id, w.id from webhooks w
    join projects p on p.project_id = w.project_id and p.id = w.project_id and p.status = 'active'
    where w.project_id = %(project_id)s and w.id = %(webhook_id)s and w.status = 'active'
    for share of w, p skip locked
)
update webhook_deliveries d set state = 'open', step = 0, epoch = d.epoch + 1,
    due_ms = (select floor(extract(epoch from (select service_now())) * 1000)::bigint),
    queued_at = (select c.position + 1 from checkpoints c where c.name = 'outbox'),
    asked = coalesce(%(asked)s::text, d.asked),
    asked_at = case when %(asked)s::text is null then d.asked_at else (select service_seconds()) end
from standing s
where d.project_id = s.project_id and d.webhook_id = s.id and d.id = %(id)s
    and (%(asked)s::text is null or d.asked is distinct from %(asked)s
        or d.asked_at <= (select service_seconds()) - %(kept)s)
