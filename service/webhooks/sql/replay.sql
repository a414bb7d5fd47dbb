-- Queue deliveries, a JSON array of rows, again or for the first time, if the webhook is active and its project stands,
-- and unless the same keyed request has done so.
with standing as (
    select w.project_id, w.id from webhooks w
    join projects p on p.project_id = w.project_id and p.id = w.project_id and p.status = 'active'
    where w.project_id = %(project_id)s and w.id = %(webhook_id)s and w.status = 'active'
    for share of w, p skip locked
), clock as (
    select floor(extract(epoch from (select service_now())) * 1000)::bigint as now_ms
)
insert into webhook_deliveries as d
    (project_id, webhook_id, position, id, event, subject_id, stream_revision, created_at, queued_at, due_ms,
    asked, asked_at)
select s.project_id, s.id, r.position, r.id, r.event, r.subject_id, r.stream_revision, r.created_at,
    (select c.position + 1 from checkpoints c where c.name = 'outbox'), (select now_ms from clock),
    %(asked)s::text, case when %(asked)s::text is not null then (select now_ms / 1000 from clock) end
from standing s cross join json_to_recordset(%(rows)s::json) r(position bigint, id text, event text, subject_id text,
    stream_revision bigint, created_at bigint)
on conflict (project_id, webhook_id, position) do update
set state = 'open', step = 0, epoch = d.epoch + 1, due_ms = excluded.due_ms, queued_at = excluded.queued_at,
    asked = coalesce(excluded.asked, d.asked), asked_at = coalesce(excluded.asked_at, d.asked_at)
where excluded.asked is null or d.asked is distinct from excluded.asked
    or d.asked_at <= excluded.asked_at - %(kept)s
