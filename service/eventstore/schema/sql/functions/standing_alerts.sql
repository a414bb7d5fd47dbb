-- How many alerts a project has. A deleted one has no row.
create or replace function standing_alerts(project text) returns bigint language sql stable as $body$
    select count(*) from alerts a where a.project_id = project
$body$;
