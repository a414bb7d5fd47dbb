-- Answers [project, DSN hash, status, account] of each wanted project: what its records are judged by, and who pays.
create or replace function ingest_projects(wanted text[]) returns json language sql stable as $body$
    select json_agg(json_build_array(p.project_id, p.dsn_hash, owned_status(p.project_id, p.status),
        paying_account(p.project_id, p.created_by)))
    from projects p where p.project_id = any(wanted) and p.id = p.project_id
$body$;
