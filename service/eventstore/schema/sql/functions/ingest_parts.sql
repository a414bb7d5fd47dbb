-- Remembers which records of an export are stored, in one row of idempotency for each export: its body has a 1 in the
-- place of every record that is, a 0 in all others. Called under the lock of the export's key.
create or replace function ingest_parts(moment timestamptz, new_parts json) returns void language sql as $body$
    insert into idempotency as t (project_id, principal, operation, key, fingerprint, command_id, client_key, status,
        body, headers, created_at)
    select u.project_id, u.principal, u.operation, u.key, u.fingerprint, u.command_id, true, u.status,
        convert_to(u.parts, 'UTF8'), '{}', moment
    from json_to_recordset(new_parts) as u(project_id text, principal text, operation text, key text, fingerprint text,
        command_id text, status int, parts text)
    on conflict (project_id, principal, operation, key) do update set body = convert_to(
        (convert_from(t.body, 'UTF8')::varbit | convert_from(excluded.body, 'UTF8')::varbit)::text, 'UTF8')
$body$;
