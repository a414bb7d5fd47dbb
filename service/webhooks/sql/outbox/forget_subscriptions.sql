-- Forget webhooks that were deleted.
delete from webhook_subscriptions s
using unnest(%(projects)s::text[], %(webhooks)s::text[]) gone(project_id, id)
where s.project_id = gone.project_id and s.id = gone.id
