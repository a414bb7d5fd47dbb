-- Note the outcomes of attempts, in their order, but of those that somebody has taken over: each delivery is due again
-- after some time, or has ended in a state. Returns for how many seconds every attempt of its webhook has failed.
with clock as (
    select floor(extract(epoch from (select service_now())) * 1000)::bigint as now_ms
), asked as (
    select * from unnest(%(project_id)s::text[], %(webhook_id)s::text[], %(position)s::bigint[], %(epoch)s::bigint[],
        %(state)s::text[], %(after_ms)s::bigint[], %(status)s::int[], %(error)s::text[]) with ordinality
        a(project_id, webhook_id, position, epoch, state, after_ms, status, error, place)
), locked as (
    select d.project_id, d.webhook_id, d.position, a.state, a.after_ms, a.status, a.error, a.place from asked a
    join webhook_deliveries d
        on d.project_id = a.project_id and d.webhook_id = a.webhook_id and d.position = a.position
    where d.epoch = a.epoch and d.due_ms is not null
    order by d.project_id, d.webhook_id, d.position
    for update of d
), done as (
    update webhook_deliveries d set attempts = d.attempts + 1, step = d.step + 1, state = l.state,
        due_ms = (select now_ms from clock) + l.after_ms, last_status = l.status, last_error = l.error
    from locked l
    where d.project_id = l.project_id and d.webhook_id = l.webhook_id and d.position = l.position
    returning d.project_id, d.webhook_id, d.position, l.status, l.error, l.place
), latest as (
    select distinct on (d.project_id, d.webhook_id) d.project_id, d.webhook_id, d.status, d.error,
        bool_or(d.error is null) over (partition by d.project_id, d.webhook_id) as succeeded
    from done d
    order by d.project_id, d.webhook_id, d.place desc
), noted as (
    insert into webhook_standings as s
        (project_id, id, stage, tried_ms, last_status, last_error, last_delivered_at, failing_since)
    select l.project_id, l.webhook_id, 'delivering', (select now_ms from clock), l.status, l.error,
        case when l.succeeded then (select now_ms / 1000 from clock) end,
        case when l.error is not null then (select now_ms / 1000 from clock) end
    from latest l
    order by l.project_id, l.webhook_id
    on conflict (project_id, id) do update set
        tried_ms = excluded.tried_ms, cut = false, last_status = excluded.last_status, last_error = excluded.last_error,
        last_delivered_at = coalesce(excluded.last_delivered_at, s.last_delivered_at),
        failing_since = case when excluded.last_error is null then null
            when excluded.last_delivered_at is not null then excluded.failing_since
            else coalesce(s.failing_since, excluded.failing_since) end
    returning s.project_id, s.id, s.failing_since
)
select d.project_id, d.webhook_id, d.position, (select now_ms / 1000 from clock) - n.failing_since
from done d join noted n on n.project_id = d.project_id and n.id = d.webhook_id
