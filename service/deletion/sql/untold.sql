-- Whether a webhook of a fenced project has still to be told of the fence.
select exists (
    select from webhooks w
    where w.project_id = %(project_id)s and w.status = 'active' and w.events ? 'project.fenced'
    and not exists (select from webhook_deliveries d
        where d.project_id = w.project_id and d.webhook_id = w.id and d.event = 'project.fenced' and d.due_ms is null))
