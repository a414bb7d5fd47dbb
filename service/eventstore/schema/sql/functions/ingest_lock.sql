-- The locks of a flush that moves no case, and what is read under them, in one statement: gates, names and heads are
-- tried and never waited for, and each query here sees what was committed before it began (the function is volatile).
-- Answers what it got: the moment, the numbers of gates and names, [project, stream, revision] of each head, the
-- idempotency records that exist, [project, DSN hash, status, account] of each sender's project, and [project, hash] of
-- its public DSN. The release before takes no notice of the last.
create or replace function ingest_lock(
    gates bigint[], wanted bigint[], head_projects text[], head_streams text[], record_names json, senders text[]
) returns json language plpgsql as $body$
declare
    got_gates  json;
    got_names  json;
    got_heads  json;
    found      json;
    projects   json;
begin
    select json_agg(g) into got_gates from unnest(gates) g where pg_try_advisory_xact_lock_shared(g);
    select json_agg(w) into got_names from unnest(wanted) w where pg_try_advisory_xact_lock(w);
    with held as (
        select h.project_id, h.stream_id, h.revision from stream_heads h
        where (h.project_id, h.stream_id) in (select * from unnest(head_projects, head_streams))
        order by h.project_id, h.stream_id for share of h skip locked
    )
    select json_agg(json_build_array(h.project_id, h.stream_id, h.revision)) into got_heads from held h;
    if record_names is not null then
        select json_agg(json_build_array(i.project_id, i.principal, i.operation, i.key, i.fingerprint, i.command_id,
            i.status, convert_from(i.body, 'UTF8'))) into found
        from json_to_recordset(record_names) as n(project_id text, principal text, operation text, key text)
        join idempotency i on i.project_id = n.project_id and i.principal = n.principal
            and i.operation = n.operation and i.key = n.key;
    end if;
    select ingest_projects(senders) into projects;
    return json_build_object('moment', service_now(), 'gates', got_gates, 'names', got_names, 'heads', got_heads,
        'records', found, 'projects', projects, 'public', ingest_public_dsns(senders));
end
$body$;
