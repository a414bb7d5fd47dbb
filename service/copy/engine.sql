-- make_logs --
-- Make the table of logs and errors. Retention drops whole parts, by the day as in PostgreSQL.
create table if not exists log_events (
    batch UInt64,
    project_id String,
    received_at DateTime('UTC'),
    id String,
    level LowCardinality(String),
    message String,
    environment LowCardinality(String),
    release Nullable(String),
    user_id Nullable(String),
    user_data Nullable(String),
    tags Map(String, String),
    extra String,
    case_id Nullable(String),
    fingerprint Nullable(String),
    grouped_by Nullable(String),
    marker_hash Nullable(String),
    adjusted Nullable(String),
    public UInt8,
    occurred_at Nullable(Int64),
    retention_days UInt16,
    index batches batch type minmax granularity 1
) engine = MergeTree
order by (project_id, level, received_at, id)
\include kept

-- make_analytics --
-- Make the table of events.
create table if not exists analytics_events (
    batch UInt64,
    project_id String,
    received_at DateTime('UTC'),
    id String,
    event String,
    distinct_id String,
    properties Map(String, String),
    marker_hash Nullable(String),
    adjusted Nullable(String),
    public UInt8,
    occurred_at Nullable(Int64),
    retention_days UInt16,
    index batches batch type minmax granularity 1
) engine = MergeTree
order by (project_id, event, received_at, id)
\include kept

-- make_names --
-- Make the table of the names of people. The row with the greatest version tells whose a name is.
create table if not exists person_names (
    project_id String,
    name String,
    person String,
    version UInt64
) engine = MergeTree
order by (project_id, name)

-- forget_names --
-- Delete names of a project.
delete from person_names where project_id = {project:String} and name in {names:Array(String)}

-- count_names --
-- Count the rows about names of a project.
select count() from person_names where project_id = {project:String}

-- forget_links --
-- Delete all names of a project.
delete from person_names where project_id = {project:String}

-- newest_version --
-- The greatest version of a name.
select max(version) from person_names

-- part kept --
-- How both tables are cut into parts, how long these stay, and for how many batches a repeat is known.
partition by (toMonday(received_at), retention_days)
ttl toStartOfDay(received_at) + toIntervalDay(retention_days + 1)
settings non_replicated_deduplication_window = {window}, ttl_only_drop_parts = 1

-- part hash_of_row --
-- The first eight bytes of the hash of a row's fields, as an integer.
reinterpretAsUInt64(substring(SHA256(arrayStringConcat([{fields}], '\0')), 1, 8))

-- measure --
-- How many rows a batch has, and the sum of their hashes modulo 2^64.
select count(), sum(
    \include hash_of_row
) from {table}
where received_at >= toDateTime({since:Int64}, 'UTC') and received_at <= toDateTime({until:Int64}, 'UTC')
    and batch = {batch:UInt64}

-- forget_batch --
-- Delete a batch.
delete from {table}
where received_at >= toDateTime({since:Int64}, 'UTC') and received_at <= toDateTime({until:Int64}, 'UTC')
    and batch = {batch:UInt64}

-- forget_after --
-- Delete the batches after a number.
delete from {table} where batch > {batch:UInt64}

-- count_after --
-- Count the rows of batches after a number.
select count() from {table} where batch > {batch:UInt64}

-- part of_scope --
-- The rows of a project, or of its people with these names up to a second.
project_id = {project:String}
    and (not {personal:Bool} or (ifNull({name}, '') in {names:Array(String)}
        and received_at <= toDateTime({until:Int64}, 'UTC') and isNotNull({name})))

-- count_scope --
-- What a project, or some people of it, have by batch: number, rows, and the sum of their hashes modulo 2^64.
select batch, count(), sum(
    \include hash_of_row
) from {table} where
\include of_scope
group by batch order by batch

-- erase_scope --
-- Delete the rows of a project, or of some people of it. They stay on the disk until the mask is applied.
delete from {table} where
\include of_scope

-- apply_mask --
-- Take deleted rows off the disk.
alter table {table} apply deleted mask

-- masked --
-- How many parts of our tables still hold deleted rows.
select count() from system.parts
where database = currentDatabase() and active and has_lightweight_delete
    and table in ('log_events', 'analytics_events', 'person_names')

-- tables --
-- Which of our tables are there.
select name from system.tables
where database = currentDatabase() and name in ('log_events', 'analytics_events', 'person_names')

-- bytes --
-- How many bytes our tables take on the disk.
select toUInt64(sum(bytes_on_disk)) from system.parts
where database = currentDatabase() and table in ('log_events', 'analytics_events', 'person_names') and active

-- drop --
-- Drop a table.
drop table if exists {table}

-- confined --
-- How far the user is confined to reading: 0, it may write.
select getSetting('readonly')

-- end_inserts --
-- End the inserts of a worker that is gone.
kill query where user = currentUser() and startsWith(query_id, {prefix:String}) sync
