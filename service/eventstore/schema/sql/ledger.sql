-- What was applied to this database: kept by the runner itself, before the first numbered file.
create table if not exists schema_migrations (
    name       text primary key,            -- 0001_clock: the file without its ending
    checksum   text not null,               -- hex SHA-256 of its bytes
    detail     text not null default '',    -- for SQL that belongs to a library, its version
    applied_at timestamptz not null default clock_timestamp()
);
-- Whether the release before can run on what the file made: one that does not have the file goes by this.
alter table schema_migrations add column if not exists compatible boolean not null default false;
