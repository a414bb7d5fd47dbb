-- Called by the release before this one, whose retention deletes the rows first.
-- Drops a day's partition of a telemetry table unless it holds rows; answers whether it is gone. It works with the
-- rights of the owner of the tables, so that the role that serves needs none to keep partitions up; it drops no other
-- table, and not the default partition.
create or replace function drop_empty_partition(telemetry text, partition_name text) returns boolean
language plpgsql security definer
set search_path = public, pg_temp
as $body$
declare
    holds boolean;
begin
    if telemetry not in ('log_events', 'analytics_events') or partition_name = telemetry || '_default'
        or not exists (select from pg_inherits i join pg_class c on c.oid = i.inhrelid
            where i.inhparent = to_regclass(telemetry) and c.relname = partition_name)
    then
        return false;
    end if;
    execute format('lock table %I in access exclusive mode', partition_name);
    execute format('select exists (select from %I)', partition_name) into holds;
    if holds then
        return false;
    end if;
    execute format('drop table %I', partition_name);
    return true;
end
$body$;
