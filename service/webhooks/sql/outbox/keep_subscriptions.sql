-- Keep what the reader has met of webhooks, a JSON array of rows.
insert into webhook_subscriptions (project_id, id, events, active, since)
select r.project_id, r.id, r.events, r.active, r.since
from json_to_recordset(%(rows)s::json) r(project_id text, id text, events jsonb, active boolean, since bigint)
on conflict (project_id, id) do update
set events = excluded.events, active = excluded.active, since = excluded.since
