-- A flush that has nothing to decide, whole, in one statement: what the flusher knows is checked under the locks, and when
-- all of it still holds and every key is new, everything is stored at once. Answers the time of receipt in epoch seconds;
-- null, with nothing stored, when a lock is held by somebody else, something is not as the flusher knows it, or a key is
-- known. A stream with revision 0 must not exist: that is looked up, and not locked. Each query here sees what was
-- committed before it began (the function is volatile), so what is checked is what stands under the locks. It is one query
-- for all checks: each query of a function costs as much as some of the rows that are stored.
create or replace function ingest_flush(
    gates bigint[], key_locks bigint[], flusher_lock bigint, head_projects text[], head_streams text[],
    head_revisions bigint[], senders text[], dsn_hashes text[], accounts text[], flusher text, number bigint,
    new_logs json, new_analytics json, new_records json, new_parts json, new_cases json, new_users json, new_usage json
) returns bigint language plpgsql as $body$
declare
    wanted   bigint;
    as_known boolean;
    moment   timestamptz;
begin
    foreach wanted in array gates loop
        if not pg_try_advisory_xact_lock_shared(wanted) then
            return null;
        end if;
    end loop;
    foreach wanted in array key_locks loop
        if not pg_try_advisory_xact_lock(wanted) then
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
            where (p.dsn_hash = known.dsn_hash or exists (
                    select from public_dsns d where d.project_id = p.project_id and d.id = p.id
                        and d.dsn_hash = known.dsn_hash))
                and owned_status(p.project_id, p.status) = 'active'
                and known.account_id = paying_account(p.project_id, p.created_by))
        and cardinality(head_projects) = (
            select count(*) from (
                select from unnest(head_projects, head_streams, head_revisions)
                    as known(project_id, stream_id, revision)
                join stream_heads h using (project_id, stream_id, revision) for share of h skip locked
            ) held) + (
            select count(*) from unnest(head_projects, head_streams, head_revisions)
                as known(project_id, stream_id, revision)
            where known.revision = 0 and not exists (
                select from stream_heads h where h.project_id = known.project_id and h.stream_id = known.stream_id))
        and (new_records is null or not exists (
            select from json_to_recordset(new_records) as n(project_id text, principal text, operation text, key text)
            join idempotency i on i.project_id = n.project_id and i.principal = n.principal
                and i.operation = n.operation and i.key = n.key))
        and (new_parts is null or not exists (
            select from json_to_recordset(new_parts)
                as n(project_id text, principal text, operation text, key text, parts text)
            join idempotency i on i.project_id = n.project_id and i.principal = n.principal
                and i.operation = n.operation and i.key = n.key
            where position(B'1' in convert_from(i.body, 'UTF8')::varbit & n.parts::varbit) > 0))
    into as_known;
    if not as_known then
        return null;
    end if;
    moment := service_now();
    if new_parts is not null then
        perform ingest_parts(moment, new_parts);
    end if;
    perform ingest_store(moment, flusher, number, new_logs, new_analytics, new_records, new_cases, new_users,
        new_usage);
    return floor(extract(epoch from moment));
end
$body$;
