-- The deliveries of a webhook as the log shows them: a stop shows so at once.
select d.id, d.event, d.position, d.subject_id,
    case when d.state <> 'open' then d.state
        when s.id is null or not s.active or d.queued_at <= s.since then 'stopped'
        when d.attempts > 0 then 'failed' else 'pending' end,
    d.attempts, d.last_status, d.last_error,
    case when d.state = 'open' and s.active and d.queued_at > s.since then (d.due_ms + 999) / 1000 end,
    encode(sha256(convert_to(d.body, 'UTF8')), 'hex')
from webhook_deliveries d
left join webhook_subscriptions s on s.project_id = d.project_id and s.id = d.webhook_id
where d.project_id = %(project_id)s and d.webhook_id = %(webhook_id)s
