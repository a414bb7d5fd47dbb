-- Whether records by the public DSN of a project alone may wake its automation (G-184): as an owner has set it (G-202), else
-- as the project began. One from before the public DSN accepts them.
create or replace function accepts_public(project text) returns boolean language sql stable as $body$
    select coalesce(
        (select s.accept_public_events from project_settings s where s.project_id = project),
        (select d.accept_public_events from public_dsns d where d.project_id = project and d.id = project),
        true)
$body$;
