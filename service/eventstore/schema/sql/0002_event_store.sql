-- The event store: streams, their heads, the gap-free log, idempotency records, snapshots.
-- Every tenant table leads with project_id, so that the schema can be distributed by project. For streams that
-- belong to a person rather than a project, project_id holds the user id: "scope" would be its truer name.

create table events (
    project_id     text   collate "C" not null,
    stream_id      text   collate "C" not null,
    revision       bigint not null check (revision > 0),
    -- cache 1: an event that was appended after another one committed draws the higher number.
    seq            bigint generated always as identity (cache 1),
    kind           text   collate "C" not null,
    topic          text   collate "C" not null,
    payload        jsonb,            -- null only once a deleted project was erased
    event_id       text   not null,
    command_id     text   not null,
    actor_kind     text   not null,
    actor_id       text   not null,
    request_id     text   not null,
    correlation_id text   not null,
    causation_id   text   not null,
    recorded_at    timestamptz not null,
    salt           bytea,            -- erased together with the payload
    payload_hash   bytea  not null,  -- sha256(salt || canonical payload)
    leaf           bytea  not null,  -- sha256(0x00 || canonical envelope with payload_hash)
    chain          bytea  not null,  -- sha256(0x02 || previous chain || leaf)
    primary key (project_id, stream_id, revision)
);
create index events_seq on events (seq);

create table stream_heads (
    project_id text collate "C" not null,
    stream_id  text collate "C" not null,
    kind       text collate "C" not null,
    revision   bigint not null check (revision > 0),
    chain      bytea  not null,
    primary key (project_id, stream_id)
) with (fillfactor = 70);

-- A state of a long stream, so that a cold process need not replay all of it. Dropped when evolve changes.
create table snapshots (
    project_id text collate "C" not null,
    stream_id  text collate "C" not null,
    revision   bigint not null,
    version    integer not null,
    state      jsonb not null,
    primary key (project_id, stream_id)
) with (fillfactor = 70);

-- Committed events that have no position yet, and their place in the gap-free log once they have one.
create table unsequenced (
    seq bigint primary key
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

create table log_index (
    position bigint primary key,
    seq      bigint not null
);
create index log_index_seq on log_index (seq);

create table log_state (
    one  boolean primary key default true check (one),
    size bigint not null
);
insert into log_state (size) values (0);

-- How far each reader of the log has come, in the transaction of what it did there.
create table checkpoints (
    name     text primary key,
    position bigint not null
);

create table idempotency (
    project_id  text collate "C" not null,
    principal   text collate "C" not null,
    operation   text collate "C" not null,
    key         text collate "C" not null,
    fingerprint text not null,
    command_id  text not null,
    client_key  boolean not null,       -- false: made by the server to recognise its own write
    status      integer,                -- null: the answer is decided anew on each replay
    body        bytea,
    headers     jsonb,
    created_at  timestamptz not null,
    primary key (project_id, principal, operation, key)
);
create index idempotency_age on idempotency (created_at) where not client_key;
create index idempotency_client_age on idempotency (created_at) where client_key;

-- History is written once. The one exception is the erasure of a deleted project, which names that project in
-- service.erase_project and may only turn payload and salt to null: the envelope still proves itself.
create function events_are_immutable() returns trigger language plpgsql as $body$
begin
    if tg_op = 'UPDATE'
       and new.payload is null and new.salt is null
       and current_setting('service.erase_project', true) = old.project_id
       and (to_jsonb(new) - 'payload' - 'salt') = (to_jsonb(old) - 'payload' - 'salt')
    then
        return new;
    end if;
    raise exception 'events are immutable' using errcode = 'restrict_violation';
end
$body$;
create trigger events_immutable before update or delete on events
    for each row execute function events_are_immutable();
create trigger events_not_truncated before truncate on events
    for each statement execute function events_are_immutable();
alter table events enable always trigger events_immutable;
alter table events enable always trigger events_not_truncated;

-- Rebuilds of read models in progress: where one that was killed goes on.
create table rebuilds (
    name       text primary key,
    position   bigint not null,
    project_id text collate "C" not null default '',
    stream_id  text collate "C" not null default '',
    rows       bigint not null default 0,
    events     bigint not null default 0,
    digest     text   not null default '0',
    started_at bigint not null
);
