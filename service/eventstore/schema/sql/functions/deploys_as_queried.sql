-- The deploys of the project that the setting service.project_id names; none without it. It works with the rights of
-- the owner of the tables, for the role of callers' queries sees no table.
create or replace function deploys_as_queried() returns table (
    id text, version text, environment text, sha text, branch text, source text, trusted boolean,
    automation_run_id text, recorded_at bigint
) language sql stable security definer
set search_path = public, pg_temp
as $body$
    select d.id, d.version, d.environment, d.sha, d.branch, d.source, d.trusted, d.automation_run_id, d.recorded_at
    from deploys d where d.project_id = nullif(current_setting('service.project_id', true), '')
$body$;
