-- The next webhooks in the order of their names that have something due, each found by one step through the index of
-- what is left to do. Returns also those with nothing due, so that the next look begins behind them; of each its
-- account, whether its last attempt succeeded, how many seconds ago it ended, and whether it was cut short.
with recursive left_to_do as (
    (select d.project_id, d.webhook_id, d.due_ms, 1 as number from webhook_deliveries d
    where d.due_ms is not null and (d.project_id, d.webhook_id) > (%(project_id)s, %(webhook_id)s)
    order by d.project_id, d.webhook_id, d.due_ms limit 1)
    union all
    select n.project_id, n.webhook_id, n.due_ms, l.number + 1 from left_to_do l
    cross join lateral (
        select d.project_id, d.webhook_id, d.due_ms from webhook_deliveries d
        where d.due_ms is not null and (d.project_id, d.webhook_id) > (l.project_id, l.webhook_id)
        order by d.project_id, d.webhook_id, d.due_ms limit 1
    ) n
    where l.number < %(most)s
)
select l.project_id, l.webhook_id,
    l.due_ms <= (select floor(extract(epoch from (select service_now())) * 1000)::bigint)
        and (coalesce(s.active, false) or p.status = 'fenced'),
    coalesce(paying_account(project => l.project_id, maker => p.created_by), l.project_id),
    t.last_status is not null and t.last_error is null,
    (extract(epoch from (select service_now())) - t.tried_ms / 1000.0)::float, coalesce(t.cut, false)
from left_to_do l
left join webhook_subscriptions s on s.project_id = l.project_id and s.id = l.webhook_id
left join webhook_standings t on t.project_id = l.project_id and t.id = l.webhook_id
left join projects p on p.project_id = l.project_id and p.id = l.project_id
order by l.number
