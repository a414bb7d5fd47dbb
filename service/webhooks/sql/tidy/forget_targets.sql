-- Delete what is left of webhooks that were deleted, once the reader of the log has met that, and no delivery is left.
with gone as (
    delete from webhook_targets t where t.url is null
    and not exists (select from webhook_subscriptions s where s.project_id = t.project_id and s.id = t.id)
    and not exists (select from webhook_deliveries d where d.project_id = t.project_id and d.webhook_id = t.id)
    returning t.project_id, t.id
)
delete from webhook_standings s using gone g where s.project_id = g.project_id and s.id = g.id
