-- Answers [project, hash of its public DSN] of each wanted project that has one.
create or replace function ingest_public_dsns(wanted text[]) returns json language sql stable as $body$
    select json_agg(json_build_array(d.project_id, d.dsn_hash))
    from public_dsns d where d.project_id = any(wanted) and d.id = d.project_id
$body$;
