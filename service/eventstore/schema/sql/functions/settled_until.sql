-- The last second of which nothing can still come in for a project, in epoch seconds: whatever was received in it or
-- before is committed, for every statement that begins after this one has ended. `gate` is the lock number of the
-- project's gate; null: of no project can anything come in, so whoever holds any lock of a name counts.
--
-- A flush takes the gate first, then tells its time of receipt, and lets go of the gate when its commit can be seen.
-- So a record of an earlier second is there, or the transaction that brings it holds the gate now and began no later
-- than the record was received. The time is read before the locks: a flush that takes the gate after they were looked
-- at receives after it. `lag` seconds stand between, for second hands and clocks that are set back a little; of a
-- session of which nothing is known, nothing is assumed.
create or replace function settled_until(gate bigint, lag bigint) returns bigint language plpgsql as $body$
declare
    moment  constant timestamptz := service_now();
    skew    constant interval := service_now() - clock_timestamp();
    oldest  timestamptz;
    holders int[];
begin
    -- What sessions do is a view over all of them, and nobody holds a gate most of the time.
    select array_agg(l.pid) into holders from pg_locks l
    where l.locktype = 'advisory' and l.granted and l.objsubid = 1
      and l.database = (select d.oid from pg_database d where d.datname = current_database())
      and (gate is null
        or (l.classid = ((gate >> 32) & 4294967295)::oid and l.objid = (gate & 4294967295)::oid));
    if holders is not null then
        select min(case when a.state = 'idle' then null else coalesce(a.xact_start, '-infinity') end) into oldest
        from pg_stat_activity a where a.pid = any(holders);
    end if;
    if oldest = '-infinity' then
        return 0;
    end if;
    return floor(extract(epoch from least(moment - lag * interval '1 second', oldest + skew - interval '1 second')));
end
$body$;
