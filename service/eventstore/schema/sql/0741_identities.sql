-- compatible: yes
-- Identities at OIDC issuers with their people: a read model in the scope of each identity itself.
create table identities (
    project_id text collate "C" not null,  -- the id
    id         text collate "C" not null,
    revision   bigint not null,
    user_id    text collate "C" not null,
    issuer     text not null,
    bound_at   bigint not null,
    primary key (project_id, id)
);
