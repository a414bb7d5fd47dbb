-- The function files that were applied to this database: kept by the runner itself, like the ledger of migrations.
create table if not exists schema_functions (
    name       text primary key,       -- of the function, and of its file without the ending
    checksum   text not null,          -- hex SHA-256 of the file's bytes
    release    text not null,          -- version of the service that applied it: an older one leaves it alone
    applied_at timestamptz not null default clock_timestamp()
);
