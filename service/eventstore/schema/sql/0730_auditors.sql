-- compatible: yes
-- Auditors of projects: a read model beside `memberships`. The release before takes whoever has a row there and is no owner
-- for a member, who may write. It does not know this table, so to it an auditor is nobody.
create table auditors (
    project_id text collate "C" not null,
    id         text collate "C" not null,
    revision   bigint not null,
    user_id    text collate "C" not null,
    created_at bigint not null,
    primary key (project_id, id)
);
create index auditors_user on auditors (user_id);
create index auditors_joined on auditors (project_id, created_at, id);  -- a page of a project's members
