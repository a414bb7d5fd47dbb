-- The projects that a person owns, alone or with others, but for those that are going.
create or replace function projects_owned_by(person text) returns text[] language sql stable as $body$
    select coalesce(array_agg(m.project_id order by m.project_id), '{}') from memberships m
    join projects p on p.project_id = m.project_id and p.id = m.project_id and p.status = 'active'
    where m.user_id = person and m.role = 'owner'
$body$;
