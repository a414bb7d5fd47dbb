-- End deliveries that a stop, a fence or a deletion has dropped, so many at a time.
with dropped as (
    select d.project_id, d.webhook_id, d.position from webhook_deliveries d
    left join webhook_subscriptions s on s.project_id = d.project_id and s.id = d.webhook_id
    where d.due_ms is not null and d.event <> 'project.fenced'
        and (s.id is null or not s.active or d.queued_at <= s.since)
    limit %(most)s
    for update of d skip locked
)
update webhook_deliveries d set state = 'stopped', due_ms = null
from dropped x
where d.project_id = x.project_id and d.webhook_id = x.webhook_id and d.position = x.position
