-- People, keys, memberships, sign-ins, projects and credentials: read models folded from their streams, and beside
-- them the facts that no event holds. Of a secret only its SHA-256 (hex) is here; the sealed copy of a DSN is the one
-- exception, and its key is outside the database.

create table people (
    project_id     text collate "C" not null,  -- the user id
    id             text collate "C" not null,
    revision       bigint not null,
    provider       text not null,
    email          text not null,
    email_verified boolean not null,
    name           text,
    synthetic      boolean not null,
    status         text not null,
    created_at     bigint not null,
    fenced_at      bigint,
    primary key (project_id, id)
);
create index people_email on people (email);

create table api_keys (
    project_id text collate "C" not null,  -- the user id
    id         text collate "C" not null,
    revision   bigint not null,
    key_hash   text collate "C" not null,
    key_prefix text not null,
    sign_in_id text collate "C",
    created_at bigint not null,
    revoked_at bigint,
    primary key (project_id, id)
);
create index api_keys_hash on api_keys (key_hash);

create table memberships (
    project_id text collate "C" not null,
    id         text collate "C" not null,
    revision   bigint not null,
    user_id    text collate "C" not null,
    role       text not null,
    created_at bigint not null,
    primary key (project_id, id)
);
create index memberships_user on memberships (user_id);

create table sign_ins (
    project_id       text collate "C" not null,  -- the sign-in's own id
    id               text collate "C" not null,
    revision         bigint not null,
    device_code_hash text collate "C" not null,
    client_name      text,
    status           text not null,
    started_at       bigint not null,
    expires_at       bigint not null,
    user_id          text collate "C",
    is_new           boolean not null,
    primary key (project_id, id)
);
create index sign_ins_device_code on sign_ins (device_code_hash);
create index sign_ins_expiry on sign_ins (expires_at);

create table projects (
    project_id text collate "C" not null,
    id         text collate "C" not null,
    revision   bigint not null,
    name       text not null,
    created_by text collate "C" not null,
    synthetic  boolean not null,
    status     text not null,
    dsn_hash   text collate "C" not null,
    dsn_prefix text not null,
    created_at bigint not null,
    fenced_at  bigint,
    primary key (project_id, id)
);
create index projects_dsn on projects (dsn_hash);

create table credentials (
    project_id    text collate "C" not null,
    id            text collate "C" not null,
    revision      bigint not null,
    kind          text not null,
    name          text not null,
    scopes        jsonb not null,
    automation_id text,
    runner_id     text collate "C",
    secret_hash   text collate "C" not null,
    prefix        text not null,
    created_by    text collate "C" not null,
    created_at    bigint not null,
    expires_at    bigint not null,
    revoked_at    bigint,
    revoke_reason text,
    primary key (project_id, id)
);
create index credentials_secret on credentials (secret_hash);
create index credentials_id on credentials (id);

-- Facts outside streams: a rebuild of the tables above neither reads nor changes them.

create table dsn_copies (
    project_id text collate "C" not null,
    id         text collate "C" not null,
    dsn_hash   text collate "C" not null,  -- which DSN the copy is of; another hash than the project's: a dead one
    ciphertext text,
    primary key (project_id, id)
);

create table sign_in_polls (
    project_id       text collate "C" not null,
    id               text collate "C" not null,
    device_code_hash text collate "C" not null,
    last_polled_at   bigint not null,
    interval_seconds bigint not null,
    primary key (project_id, id)
) with (fillfactor = 70);

create table key_uses (
    project_id   text collate "C" not null,
    id           text collate "C" not null,
    last_used_at bigint not null,
    primary key (project_id, id)
) with (fillfactor = 70);

create table credential_uses (
    project_id   text collate "C" not null,
    id           text collate "C" not null,
    last_used_at bigint not null,
    primary key (project_id, id)
) with (fillfactor = 70);
