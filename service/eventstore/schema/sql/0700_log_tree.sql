-- compatible: yes
-- The Merkle tree over positions, and the signed checkpoints of it. A leaf of the tree is the leaf of an event.

-- Under which name the log is known to outsiders. It is made once, and is no address. `service log continue` adds one
-- that names the one before, with the last checkpoint that is known of that.
create table log_origins (
    number    integer primary key check (number > 0),
    origin    text   collate "C" not null unique,
    continues text   collate "C",              -- perhaps one that this database never had
    at_size   bigint,
    at_root   bytea,
    began_at  timestamptz not null
);
insert into log_origins (number, origin, began_at)
values (1, 'service.invalid/log/' || replace(gen_random_uuid()::text, '-', ''), clock_timestamp());

-- Full tiles alone: 256 hashes of a level, and the root over them, which is a hash of the tile above. A partial tile is
-- made of the roots below it, and at level 0 of the events.
create table log_tiles (
    level  smallint not null check (level >= 0),
    tile   bigint   not null check (tile >= 0),
    hashes bytea    not null check (length(hashes) = 8192),
    root   bytea    not null check (length(root) = 32),
    primary key (level, tile)
);
alter table log_tiles alter column hashes set storage external;

create table log_checkpoints (
    origin    text   collate "C" not null,
    size      bigint not null check (size >= 0),
    root      bytea  not null check (length(root) = 32),
    note      text   not null,                -- with the signatures of the log
    signed_at timestamptz not null,
    pinned    boolean not null default false,  -- a proof names it
    primary key (origin, size)
);
create index log_checkpoints_loose on log_checkpoints (signed_at) where not pinned;

create table log_cosignatures (
    origin      text   collate "C" not null,
    size        bigint not null,
    witness     text   collate "C" not null,   -- the name of its keys
    lines       text   not null,
    cosigned_at timestamptz not null,
    primary key (origin, size, witness)
);

-- What the last worker that looked found of the log: "same" as what was signed before, or why it signs nothing.
create table log_standing (
    one     boolean primary key default true check (one),
    verdict text not null,
    detail  text not null,
    since   timestamptz not null
);

-- Since when each key signs: the one before signs along for a day.
create table log_keys (
    vkey            text   collate "C" primary key,
    origin          text   collate "C" not null,
    first_signed_at timestamptz not null
);

-- Their texts stand in functions/.
create function log_rows_are_immutable() returns trigger language plpgsql as $body$ begin return null; end $body$;
create function log_checkpoints_are_kept() returns trigger language plpgsql as $body$ begin return null; end $body$;

create trigger log_origins_immutable before update or delete on log_origins
    for each row execute function log_rows_are_immutable();
create trigger log_origins_not_truncated before truncate on log_origins
    for each statement execute function log_rows_are_immutable();
create trigger log_tiles_immutable before update or delete on log_tiles
    for each row execute function log_rows_are_immutable();
create trigger log_tiles_not_truncated before truncate on log_tiles
    for each statement execute function log_rows_are_immutable();
create trigger log_cosignatures_immutable before update or delete on log_cosignatures
    for each row execute function log_rows_are_immutable();
create trigger log_cosignatures_not_truncated before truncate on log_cosignatures
    for each statement execute function log_rows_are_immutable();
create trigger log_keys_immutable before update or delete on log_keys
    for each row execute function log_rows_are_immutable();
create trigger log_keys_not_truncated before truncate on log_keys
    for each statement execute function log_rows_are_immutable();
create trigger log_checkpoints_kept before update or delete on log_checkpoints
    for each row execute function log_checkpoints_are_kept();
create trigger log_checkpoints_not_truncated before truncate on log_checkpoints
    for each statement execute function log_checkpoints_are_kept();
alter table log_origins enable always trigger log_origins_immutable;
alter table log_origins enable always trigger log_origins_not_truncated;
alter table log_tiles enable always trigger log_tiles_immutable;
alter table log_tiles enable always trigger log_tiles_not_truncated;
alter table log_cosignatures enable always trigger log_cosignatures_immutable;
alter table log_cosignatures enable always trigger log_cosignatures_not_truncated;
alter table log_keys enable always trigger log_keys_immutable;
alter table log_keys enable always trigger log_keys_not_truncated;
alter table log_checkpoints enable always trigger log_checkpoints_kept;
alter table log_checkpoints enable always trigger log_checkpoints_not_truncated;
