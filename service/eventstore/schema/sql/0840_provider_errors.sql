-- compatible: yes
-- Errors that a project's connected provider counted (G-182). No row stands for one of them.
--
-- Of a case known to the provider, `own_…` say of its errors by DSN what the columns without it say of all, and
-- `provider_…` what the provider counted. They are null in a case that is known by DSN alone. `event_count` and
-- `users_affected` are the greater of the two. `provider_people` is the number of people in the look with most of them.
alter table case_stats add column own_count bigint, add column own_people bigint, add column own_first_seen_at bigint,
    add column own_last_seen_at bigint, add column own_unmarked boolean, add column provider_count bigint,
    add column provider_people bigint, add column provider_last_seen_at bigint, add column provider_sample jsonb;

create table provider_looks (
    project_id    text   collate "C" not null,
    id            text   collate "C" not null,  -- the project
    connection_id text   collate "C" not null,
    place         text   not null,              -- the provider's host and project
    number        bigint not null,              -- of writes: each names the one before
    cursor_at     bigint not null,              -- epoch seconds of the provider's clock, up to which all was read
    read_to       bigint not null,              -- the same by the clock of the service
    skipped       bigint not null,              -- errors that were too many to be counted
    primary key (project_id, id)
);

-- The uuids of the overlap, 16 bytes each: all that a write has counted.
create table provider_uuids (
    project_id text   collate "C" not null,
    number     bigint not null,
    last_at    bigint not null,                 -- epoch seconds of the provider's clock
    kept_at    bigint not null,
    uuids      bytea  not null,
    primary key (project_id, number)
);

-- Groups of the provider that were met, with the fingerprints of their errors.
create table provider_groups (
    project_id text   collate "C" not null,
    id         text   collate "C" not null,
    offered    jsonb  not null,
    met_at     bigint not null,
    primary key (project_id, id)
);

create table provider_counts (
    project_id  text   collate "C" not null,
    case_id     text   collate "C" not null,
    minute      bigint not null,                -- epoch seconds of its start
    environment text   collate "C" not null,
    release     text   collate "C" not null,    -- '' without one
    errors      bigint not null,
    synthetic   bigint not null,                -- those of `errors` with a proof marker
    people      bigint not null,                -- of the look with most of them
    last_at     bigint not null,
    primary key (project_id, case_id, minute, environment, release)
);
create index provider_counts_minute on provider_counts (project_id, minute);
