-- Whether an invitation can be accepted: open and in time, of a project that stays, by somebody who has been an active
-- owner ever since. One that fails any of these is dead for good.
create or replace function invitation_stands(project text, invitation text) returns boolean language sql stable as $body$
    select exists (
        select from invitations i
        join projects p on p.project_id = i.project_id and p.id = i.project_id and p.status = 'active'
        join memberships m on m.project_id = i.project_id and m.user_id = i.invited_by and m.role = 'owner'
            and m.revision = i.standing
        join people u on u.project_id = i.invited_by and u.id = i.invited_by and u.status = 'active'
        where i.project_id = project and i.id = invitation and i.status = 'open'
        and i.expires_at > (select floor(extract(epoch from service_now()))::bigint))
$body$;
