-- compatible: yes
-- Invitations to projects: a read model, in the scope of the project.
create table invitations (
    project_id  text collate "C" not null,
    id          text collate "C" not null,
    revision    bigint not null,
    email       text not null,
    role        text not null,
    status      text not null,
    invited_by  text collate "C" not null,
    standing    bigint not null,  -- the revision of the inviter's membership when it was made
    invited_at  bigint not null,
    expires_at  bigint not null,
    accepted_by text collate "C",
    primary key (project_id, id)
);
create index invitations_id on invitations (id);
create index invitations_expiry on invitations (expires_at);
create index memberships_joined on memberships (project_id, created_at, id);  -- a page of a project's members

-- What a command looks up of them by a stream's name, over functions, which find their tables when they run (a rebuild
-- swaps tables): functions/ says what they do.
create function invitation_stands(project text, invitation text) returns boolean language sql stable as
$body$ select false $body$;
create function open_invitations(project text) returns bigint language sql stable as $body$ select 0::bigint $body$;
create view invitation_standings as
select h.project_id, h.stream_id as id,
    h.kind = 'inv' and invitation_stands(project => h.project_id, invitation => h.stream_id) as stands,
    case when h.kind = 'proj' then open_invitations(project => h.project_id) else 0 end as open_count
from stream_heads h where h.kind in ('proj', 'inv');
