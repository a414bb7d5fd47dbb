-- How many destinations of notifications a project has. A deleted one has no row.
create or replace function standing_destinations(project text) returns bigint language sql stable as $body$
    select count(*) from notification_destinations d where d.project_id = project
$body$;
