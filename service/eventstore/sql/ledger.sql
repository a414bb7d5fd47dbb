-- What was applied to this database: kept by the runner itself, before the first numbered file.
create table if not exists schema_migrations (
    name       text primary key,            -- 0001_clock: the file without its ending
    checksum   text not null,               -- hex SHA-256 of its bytes
    detail     text not null default '',    -- for SQL that belongs to a library, its version
    applied_at timestamptz not null default clock_timestamp()
);
