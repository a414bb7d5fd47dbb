-- What a flush that only counts relies on is checked in one query instead of four: each query of a function costs as
-- much as some of the rows that are stored. The locks come first, so the query sees what stands under them.
create or replace function ingest_count(
    gates bigint[], flusher_lock bigint, head_projects text[], head_streams text[], head_revisions bigint[],
    senders text[], dsn_hashes text[], accounts text[], flusher text, number bigint,
    new_logs json, new_analytics json, new_cases json, new_users json, new_usage json
) returns bigint language plpgsql as $body$
declare
    gate     bigint;
    as_known boolean;
    moment   timestamptz;
begin
    foreach gate in array gates loop
        if not pg_try_advisory_xact_lock_shared(gate) then
            return null;
        end if;
    end loop;
    if not pg_try_advisory_xact_lock(flusher_lock) then
        return null;
    end if;
    select not exists (select from ingest_flushers f where f.id = flusher and f.given_up >= number)
        and cardinality(senders) = (
            select count(*) from unnest(senders, dsn_hashes, accounts) as known(project_id, dsn_hash, account_id)
            join projects p on p.project_id = known.project_id and p.id = known.project_id
                and p.dsn_hash = known.dsn_hash
            where p.status = 'active' and known.account_id = paying_account(p.project_id, p.created_by))
        and cardinality(head_projects) = (
            select count(*) from (
                select from unnest(head_projects, head_streams, head_revisions)
                    as known(project_id, stream_id, revision)
                join stream_heads h using (project_id, stream_id, revision) for share of h skip locked
            ) held)
    into as_known;
    if not as_known then
        return null;
    end if;
    moment := service_now();
    perform ingest_store(moment, flusher, number, new_logs, new_analytics, null, new_cases, new_users, new_usage);
    return floor(extract(epoch from moment));
end
$body$;
