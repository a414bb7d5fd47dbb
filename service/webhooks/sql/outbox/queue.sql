-- Queue deliveries, a JSON array of rows, each due at once. Such a webhook is delivering from then on.
with queued as (
    insert into webhook_deliveries
        (project_id, webhook_id, position, id, event, subject_id, stream_revision, created_at,
        queued_at, due_ms)
    select r.project_id, r.webhook_id, r.position, r.id, r.event, r.subject_id, r.stream_revision, r.created_at,
        r.position, (select floor(extract(epoch from (select service_now())) * 1000)::bigint)
    from json_to_recordset(%(rows)s::json) r(project_id text, webhook_id text, position bigint, id text, event text,
        subject_id text, stream_revision bigint, created_at bigint)
    on conflict do nothing
    returning project_id, webhook_id
)
insert into webhook_standings as s (project_id, id, stage)
select distinct q.project_id, q.webhook_id, 'delivering' from queued q
on conflict (project_id, id) do update set stage = excluded.stage where s.stage <> excluded.stage
