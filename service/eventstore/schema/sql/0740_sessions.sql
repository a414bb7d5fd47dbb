-- compatible: yes
-- Sessions of people and the links that open them: a read model in the scope of each person; and when each was used
-- last, a fact.
create table sessions (
    project_id       text collate "C" not null,  -- the user id
    id               text collate "C" not null,
    revision         bigint not null,
    status           text not null,
    link_hash        text collate "C" not null,  -- "" once it is used
    secret_hash      text collate "C" not null,  -- "" of a link
    by               text not null,
    created_at       bigint not null,
    authenticated_at bigint not null,
    expires_at       bigint not null,
    ended_at         bigint,
    primary key (project_id, id)
);
create index sessions_link on sessions (link_hash);
create index sessions_secret on sessions (secret_hash);
create index sessions_expiry on sessions (expires_at);
create index sessions_open on sessions (project_id, created_at, id) where status = 'open';

create table session_uses (
    project_id   text collate "C" not null,
    id           text collate "C" not null,
    last_used_at bigint not null,
    primary key (project_id, id)
) with (fillfactor = 70);
create index session_uses_last on session_uses (last_used_at);
