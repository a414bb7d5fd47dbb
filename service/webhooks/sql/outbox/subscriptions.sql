-- What the reader has met of the webhooks of some projects.
select s.project_id, s.id, s.events, s.active, s.since
from webhook_subscriptions s where s.project_id = any(%(projects)s::text[])
