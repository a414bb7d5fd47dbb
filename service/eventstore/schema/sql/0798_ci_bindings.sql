-- compatible: yes
-- The workflows that a project's owners have bound, and the credentials that CI exchanged tokens of theirs for (G-171).
-- These have a table of their own: a process of the release before finds none of them, and lets none of them in.
create table ci_bindings (
    project_id text   collate "C" not null,
    id         text   collate "C" not null,
    revision   bigint not null,
    bindings   jsonb  not null,
    primary key (project_id, id)
);

create table exchanged_credentials (
    project_id  text   collate "C" not null,
    id          text   collate "C" not null,
    revision    bigint not null,
    binding_id  text   collate "C" not null,
    run         jsonb  not null,
    scopes      jsonb  not null,
    prefix      text   not null,
    created_at  bigint not null,
    expires_at  bigint not null,
    primary key (project_id, id)
);
create index exchanged_credentials_newest on exchanged_credentials (project_id, created_at, id);
create index exchanged_credentials_over on exchanged_credentials (expires_at);

-- The hashes of their secrets: facts, gone with the secrets themselves.
create table exchanged_secrets (
    project_id  text   collate "C" not null,
    id          text   collate "C" not null,
    secret_hash text   collate "C" not null,
    expires_at  bigint not null,
    primary key (project_id, id)
);
create index exchanged_secrets_hash on exchanged_secrets (secret_hash);
create index exchanged_secrets_over on exchanged_secrets (expires_at);

-- The run of a workflow that recorded a deploy by such a credential. Null: another credential, or none.
alter table deploys add column ci_run jsonb;
