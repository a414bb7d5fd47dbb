-- A page of the deliveries of a webhook after a position, ascending, among so many that are looked at; and the last
-- position looked at, when there may be more. What a stop has dropped shows so at once.
with looked as (
    select d.position, d.id, d.event, d.subject_id, d.attempts, d.last_status, d.last_error, d.due_ms, d.body,
        case when d.state <> 'open' then d.state
            when s.id is null or not s.active or d.queued_at <= s.since then 'stopped'
            when d.attempts > 0 then 'failed' else 'pending' end as status
    from webhook_deliveries d
    left join webhook_subscriptions s on s.project_id = d.project_id and s.id = d.webhook_id
    where d.project_id = %(project_id)s and d.webhook_id = %(webhook_id)s and d.position > %(after)s
    order by d.position limit %(looked)s
)
select (select case when count(*) = %(looked)s then max(a.position) end from looked a),
    l.id, l.event, l.position, l.subject_id, l.status, l.attempts, l.last_status, l.last_error,
    case when l.status in ('pending', 'failed') then (l.due_ms + 999) / 1000 end,
    encode(sha256(convert_to(l.body, 'UTF8')), 'hex')
from (select) one left join lateral (
    select * from looked l where %(status)s::text is null or l.status = %(status)s order by l.position limit %(limit)s
) l on true
order by l.position
