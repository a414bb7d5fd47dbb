-- End a delivery whose subject is gone: there is nothing left to tell.
update webhook_deliveries d set state = 'stopped', due_ms = null
where d.project_id = %(project_id)s and d.webhook_id = %(webhook_id)s and d.position = %(position)s
    and d.epoch = %(epoch)s and d.due_ms is not null
