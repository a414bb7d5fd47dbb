-- Note the outcome of an attempt, unless somebody has taken the delivery over: it is due again after some time, or has
-- ended in a state. Returns for how many seconds every attempt of the webhook has failed.
with clock as (
    select floor(extract(epoch from (select service_now())) * 1000)::bigint as now_ms
), done as (
    update webhook_deliveries d set attempts = d.attempts + 1, step = d.step + 1, state = %(state)s,
        due_ms = (select now_ms from clock) + %(after_ms)s::bigint,
        last_status = %(status)s, last_error = %(error)s
    where d.project_id = %(project_id)s and d.webhook_id = %(webhook_id)s and d.position = %(position)s
        and d.epoch = %(epoch)s and d.due_ms is not null
    returning d.project_id, d.webhook_id
)
insert into webhook_standings as s
    (project_id, id, stage, last_status, last_error, last_delivered_at, failing_since)
select d.project_id, d.webhook_id, 'delivering', %(status)s, %(error)s::text,
    case when %(error)s::text is null then (select now_ms / 1000 from clock) end,
    case when %(error)s::text is not null then (select now_ms / 1000 from clock) end
from done d
on conflict (project_id, id) do update set
    last_status = excluded.last_status, last_error = excluded.last_error,
    last_delivered_at = coalesce(excluded.last_delivered_at, s.last_delivered_at),
    failing_since = case when excluded.last_error is null then null
        else coalesce(s.failing_since, excluded.failing_since) end
returning (select now_ms / 1000 from clock) - s.failing_since
