-- compatible: yes
-- How far the copy of telemetry in ClickHouse has come (G-200). Without a copy these tables are empty. The release before
-- neither ships nor erases in a copy: a deletion that it ends has nothing in one.

-- One row for each table of telemetry while there is a copy.
create table telemetry_copies (
    telemetry    text   collate "C" primary key,
    number       bigint not null,  -- of the last sealed batch, 0 before the first
    sealed       bigint not null,  -- up to this key everything is in a batch; that of a whole second ends in ''
    sealed_project text collate "C" not null,
    sealed_id    text   collate "C" not null,
    copied_until bigint not null,  -- the watermark: every earlier second is in the copy
    failed       bigint not null,  -- attempts that left something else than the batch in the copy
    problem      text,             -- why nothing is shipped, in our words; null: nothing stands in the way
    looked_at    bigint not null   -- when a worker last looked
);

-- A sealed window of what the intake has committed: the rows with a key after the first and up to the last one. Nothing
-- comes into it any more; a deletion or retention may take rows out.
create table telemetry_batches (
    telemetry       text   collate "C" not null,
    number          bigint not null,
    since           bigint not null,
    since_project   text   collate "C" not null,
    since_id        text   collate "C" not null,
    until           bigint not null,
    until_project   text   collate "C" not null,
    until_id        text   collate "C" not null,
    rows            bigint not null,
    digest          numeric(20) not null,  -- the sum of the hashes of its rows, modulo 2^64
    kept_days       bigint not null,       -- of the row that goes first
    attempt         bigint not null,       -- part of the token by which the copy knows a repeat
    copied_at       bigint,
    primary key (telemetry, number)
);
create index telemetry_batches_waiting on telemetry_batches (telemetry, number) where copied_at is null;

-- What is to be erased in the copy before a deletion ends, under the id of this deletion. What was erased stays known by
-- its batches: [table, number, rows, digest] of each.
create table telemetry_erasures (
    project_id text   collate "C" not null,  -- the deletion, as in deletions
    id         text   collate "C" not null,
    scope_id   text   collate "C" not null,  -- the project
    person     text   collate "C",           -- the stream of a person's erasure; null: all of the project
    asked_at   bigint not null,
    batches    jsonb  not null,
    done_at    bigint,
    primary key (project_id, id)
);
create index telemetry_erasures_open on telemetry_erasures (asked_at, id) where done_at is null;
