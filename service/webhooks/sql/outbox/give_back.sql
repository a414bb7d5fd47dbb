-- Give a delivery back that was taken and not attempted, or whose attempt was cut short.
with given as (
    update webhook_deliveries d
    set due_ms = (select floor(extract(epoch from (select service_now())) * 1000)::bigint) + %(rest_ms)s
    where d.project_id = %(project_id)s and d.webhook_id = %(webhook_id)s and d.position = %(position)s
        and d.epoch = %(epoch)s and d.due_ms is not null
    returning d.project_id, d.webhook_id
)
update webhook_standings s
set cut = true, tried_ms = (select floor(extract(epoch from (select service_now())) * 1000)::bigint)
from given g
where s.project_id = g.project_id and s.id = g.webhook_id and %(cut)s
