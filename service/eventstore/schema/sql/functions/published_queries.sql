-- How many queries a project has published. Revoked ones do not count.
create or replace function published_queries(project text) returns bigint language sql stable as $body$
    select count(*) from publications p where p.project_id = project and p.status = 'published'
$body$;
