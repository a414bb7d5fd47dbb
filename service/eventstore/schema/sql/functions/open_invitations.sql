-- How many of a project's invitations can be accepted.
create or replace function open_invitations(project text) returns bigint language sql stable as $body$
    select count(*) from invitations i
    where i.project_id = project and i.status = 'open' and invitation_stands(project => i.project_id, invitation => i.id)
$body$;
