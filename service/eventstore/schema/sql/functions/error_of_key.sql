-- The stored error of a project by the id that an SDK gave it, and by either DSN. The record of the id is kept for a day.
create or replace function error_of_key(project text, sent_id text)
returns table (error_id text, case_id text, user_id text) language sql stable as $body$
    select e.id, e.case_id, e.user_id
    from unnest(array['dsn:' || project, 'public_dsn:' || project]) s(principal)
    join idempotency i on i.project_id = project and i.principal = s.principal and i.operation = 'Sentry event'
        and i.key = sent_id
    join log_events e on e.project_id = project and e.received_at = floor(extract(epoch from i.created_at))::bigint
        and e.id = convert_from(i.body, 'UTF8')::jsonb ->> 'id'
    limit 1
$body$;
