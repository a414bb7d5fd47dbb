-- How many webhooks a project has. A deleted one has no row.
create or replace function standing_webhooks(project text) returns bigint language sql stable as $body$
    select count(*) from webhooks w where w.project_id = project
$body$;
