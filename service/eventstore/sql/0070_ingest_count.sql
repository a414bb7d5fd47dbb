-- The last batch of a flusher that was found not stored: a statement that bears its number comes too late.
alter table ingest_flushers add column given_up bigint not null default 0;

-- A flush that only counts, whole, in one statement: what the flusher knows is checked under the locks, and when all of
-- it still holds, everything is stored at once. Answers the time of receipt; null, with nothing stored, when a lock is
-- held by somebody else or something is not as the flusher knows it. Each query here sees what was committed before it
-- began (the function is volatile), so what is checked is what stands under the locks.
create function ingest_count(
    gates bigint[], flusher_lock bigint, head_projects text[], head_streams text[], head_revisions bigint[],
    senders text[], dsn_hashes text[], accounts text[], flusher text, number bigint,
    new_logs json, new_analytics json, new_cases json, new_users json, new_usage json
) returns bigint language plpgsql as $body$
declare
    moment timestamptz;
    met    bigint;
begin
    select count(*) into met from unnest(gates) g where pg_try_advisory_xact_lock_shared(g);
    if met <> cardinality(gates) or not pg_try_advisory_xact_lock(flusher_lock) then
        return null;
    end if;
    if exists (select from ingest_flushers f where f.id = flusher and f.given_up >= number) then
        return null;
    end if;
    with held as (
        select h.project_id, h.stream_id, h.revision from stream_heads h
        where (h.project_id, h.stream_id) in (select * from unnest(head_projects, head_streams))
        order by h.project_id, h.stream_id for share of h skip locked
    )
    select count(*) into met from held
    join unnest(head_projects, head_streams, head_revisions) as known(project_id, stream_id, revision)
        using (project_id, stream_id, revision);
    if met <> cardinality(head_projects) then
        return null;
    end if;
    select count(*) into met from json_array_elements(ingest_projects(senders)) as s(stands)
    join unnest(senders, dsn_hashes, accounts) as known(project_id, dsn_hash, account_id)
        on stands ->> 0 = known.project_id and stands ->> 1 = known.dsn_hash and stands ->> 2 = 'active'
        and stands ->> 3 = known.account_id;
    if met <> cardinality(senders) then
        return null;
    end if;
    moment := service_now();
    perform ingest_store(moment, flusher, number, new_logs, new_analytics, null, new_cases, new_users, new_usage);
    return floor(extract(epoch from moment));
end
$body$;
