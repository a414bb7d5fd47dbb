-- Give a delivery back that was taken and not attempted.
update webhook_deliveries d
set due_ms = (select floor(extract(epoch from (select service_now())) * 1000)::bigint) + %(rest_ms)s
where d.project_id = %(project_id)s and d.webhook_id = %(webhook_id)s and d.position = %(position)s
    and d.epoch = %(epoch)s and d.due_ms is not null
