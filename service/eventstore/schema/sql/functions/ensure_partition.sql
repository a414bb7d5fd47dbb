-- Gives a day its own partition of a telemetry table. `day` is the epoch of its midnight. Answers whether it has one.
-- Rows of the day that the default partition caught meanwhile move along, unless they are more than `most_moved`, which
-- would hold up ingest: then they stay where they are, and so does everything else of that day. Who may do something
-- with the table may do it with the partition.
create or replace function ensure_partition(telemetry text, day bigint, most_moved bigint default 100000) returns boolean
language plpgsql security definer
set search_path = public, pg_temp
as $body$
declare
    fallback constant text := telemetry || '_default';
    wanted   constant text := telemetry || '_' || to_char(to_timestamp(day) at time zone 'UTC', 'YYYYMMDD');
    caught   bigint;
    may      record;
begin
    if telemetry not in ('log_events', 'analytics_events') then
        raise exception '% is no telemetry', telemetry using errcode = 'invalid_parameter_value';
    end if;
    if to_regclass(wanted) is not null then
        return true;
    end if;
    execute format('lock table %I in access exclusive mode', fallback);
    execute format('select count(*) from (select 1 from %I where received_at >= $1 and received_at < $1 + 86400
        limit $2 + 1) c', fallback) into caught using day, most_moved;
    if caught > most_moved then
        return false;
    end if;
    execute format('create table %I (like %I including defaults including storage)', wanted, telemetry);
    if caught > 0 then
        execute format('with moved as (delete from %I where received_at >= $1 and received_at < $1 + 86400 returning *)
            insert into %I select * from moved', fallback, wanted) using day;
    end if;
    execute format('alter table %I attach partition %I for values from (%s) to (%s)',
        telemetry, wanted, day, day + 86400);
    for may in
        select a.privilege_type as what, a.grantee::regrole as who from pg_class c, aclexplode(c.relacl) a
        where c.oid = to_regclass(telemetry) and a.grantee not in (0, c.relowner)
    loop
        execute format('grant %s on %I to %s', may.what, wanted, may.who);
    end loop;
    return true;
end
$body$;
