-- compatible: yes
-- Source maps and the minified sources that they belong to, as release tooling uploads them (G-141).
--
-- They are facts: no event holds them, so a rebuild neither loses nor repeats them. A row is put under the lock of its
-- project's stream, so what a project holds together never exceeds its bound. The bytes lie in pieces that were written
-- before; a blob that nothing keeps goes by time.

create table source_maps (
    project_id text   collate "C" not null,
    id         text   collate "C" not null,  -- made from what it is found by
    kind       text   collate "C" not null,  -- source_map, minified_source
    debug_id   text   collate "C",           -- found by it alone, where it has one
    release    text   collate "C",
    source_url text   collate "C",           -- of the minified file; ~ stands for any origin
    sha256     text   collate "C" not null,  -- of the bytes as they were sent
    size       bigint not null,              -- of them
    blob_id    text   collate "C" not null,
    stored_at  bigint not null,
    removed_at bigint,
    primary key (project_id, id)
);
create index source_maps_newest on source_maps (project_id, stored_at, id) where removed_at is null;
create index source_maps_debug_id on source_maps (project_id, debug_id) where debug_id is not null;
create index source_maps_of_release on source_maps (project_id, release, stored_at, id) where removed_at is null;
create index source_maps_url on source_maps (project_id, release, source_url);

create table source_map_totals (
    project_id text   collate "C" not null,
    id         text   collate "C" not null,  -- the project again
    files      bigint not null,
    size       bigint not null,
    primary key (project_id, id)
) with (fillfactor = 50);

create table source_map_blobs (
    project_id text   collate "C" not null,
    id         text   collate "C" not null,
    kept       boolean not null,             -- false: on its way, or replaced; it goes an hour after `stored_at`
    stored_at  bigint not null,
    primary key (project_id, id)
);
create index source_map_blobs_over on source_map_blobs (stored_at) where not kept;

create table source_map_pieces (
    project_id text   collate "C" not null,
    blob_id    text   collate "C" not null,
    number     bigint not null,              -- from 0
    content    bytea  not null,              -- compressed with zstandard, each piece by itself
    primary key (project_id, blob_id, number)
);
alter table source_map_pieces alter column content set storage external;  -- it is compressed already

-- Parts of bundles that other tools send before they say what these are. Scoped by the person whose key was used.
create table upload_chunks (
    project_id text   collate "C" not null,
    id         text   collate "C" not null,  -- SHA-1, as these tools name them
    size       bigint not null,
    content    bytea  not null,              -- compressed with zstandard
    stored_at  bigint not null,
    primary key (project_id, id)
);
alter table upload_chunks alter column content set storage external;
create index upload_chunks_over on upload_chunks (stored_at);
