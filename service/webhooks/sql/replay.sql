-- Queue deliveries, a JSON array of rows, again or for the first time, if the webhook is active and its project stands.
with standing as (
    select w.project_id, w.id from webhooks w
    join projects p on p.project_id = w.project_id and p.id = w.project_id and p.status = 'active'
    where w.project_id = %(project_id)s and w.id = %(webhook_id)s and w.status = 'active'
    for share of w, p skip locked
), clock as (
    select floor(extract(epoch from (select service_now())) * 1000)::bigint as now_ms
)
insert into webhook_deliveries as d
    (project_id, webhook_id, position, id, event, subject_id, stream_revision, created_at, queued_at, due_ms)
select s.project_id, s.id, r.position, r.id, r.event, r.subject_id, r.stream_revision, r.created_at,
    (select c.position + 1 from checkpoints c where c.name = 'outbox'), (select now_ms from clock)
from standing s cross join json_to_recordset(%(rows)s::json) r(position bigint, id text, event text, subject_id text,
    stream_revision bigint, created_at bigint)
on conflict (project_id, webhook_id, position) do update
set state = 'open', step = 0, epoch = d.epoch + 1, due_ms = excluded.due_ms, queued_at = excluded.queued_at
