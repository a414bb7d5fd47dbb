-- Who pays for what a project sends: its first owner; who made it stands in while nobody owns it.
create or replace function paying_account(project text, maker text) returns text language sql stable as $body$
    select coalesce((select m.user_id from memberships m where m.project_id = project and m.role = 'owner'
        order by m.created_at, m.id limit 1), maker)
$body$;
