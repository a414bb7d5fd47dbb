-- The status of a project as its gate has it: an active one whose owners' accounts are all being deleted is fenced, also
-- before the deletion of the last of them has come to it (R-DEL-04).
create or replace function owned_status(project text, status text) returns text language sql stable as $body$
    select case when $2 = 'active' and (
        select not bool_or(u.status = 'active') from memberships m
        join people u on u.project_id = m.user_id and u.id = m.user_id
        where m.project_id = project and m.role = 'owner') then 'fenced' else $2 end
$body$;
