-- Whether records by the public DSN of a project alone may wake its automation (G-184).
create or replace function accepts_public(project text) returns boolean language sql stable as $body$
    select coalesce((select d.accept_public_events from public_dsns d
        where d.project_id = project and d.id = project), true)
$body$;
