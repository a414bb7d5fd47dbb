-- Drops a day's partition of a telemetry table with all that it holds, if the day ended at the given moment (epoch
-- seconds) or before; answers whether it did. It works with the rights of the owner of the tables, so that the role that
-- serves needs none to keep partitions up; it drops no other table, not the default partition, and no day that is not
-- over for a day. The table is locked before its partition, as every statement does that reads or writes it.
create or replace function drop_ended_partition(telemetry text, partition_name text, ended bigint) returns boolean
language plpgsql security definer
set search_path = public, pg_temp
as $body$
declare
    today constant bigint := floor(extract(epoch from service_now()) / 86400)::bigint * 86400;
    day   date;
begin
    if telemetry not in ('log_events', 'analytics_events') or partition_name = telemetry || '_default'
        or not exists (select from pg_inherits i join pg_class c on c.oid = i.inhrelid
            where i.inhparent = to_regclass(telemetry) and c.relname = partition_name)
    then
        return false;
    end if;
    day := to_date(right(partition_name, 8), 'YYYYMMDD');
    if (day - date '1970-01-01' + 1)::bigint * 86400 > least(ended, today - 86400) then
        return false;
    end if;
    execute format('lock table only %I in access exclusive mode', telemetry);
    execute format('drop table %I', partition_name);
    return true;
end
$body$;
