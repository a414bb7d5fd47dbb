-- Delete deliveries of webhooks that were deleted, so many at a time.
delete from webhook_deliveries d where d.ctid = any(array(
    select o.ctid from webhook_targets t
    join webhook_deliveries o on o.project_id = t.project_id and o.webhook_id = t.id
    where t.url is null limit %(most)s))
