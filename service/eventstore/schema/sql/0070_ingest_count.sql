-- The last batch of a flusher that was found not stored: a statement that bears its number comes too late.
alter table ingest_flushers add column given_up bigint not null default 0;

-- Who pays for what a project sends: its first owner; who made it stands in while nobody owns it.
create function paying_account(project text, maker text) returns text language sql stable as $body$
    select coalesce((select m.user_id from memberships m where m.project_id = project and m.role = 'owner'
        order by m.created_at, m.id limit 1), maker)
$body$;

create or replace function ingest_projects(wanted text[]) returns json language sql stable as $body$
    select json_agg(json_build_array(p.project_id, p.dsn_hash, p.status, paying_account(p.project_id, p.created_by)))
    from projects p where p.project_id = any(wanted) and p.id = p.project_id
$body$;

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
    select count(*) into met from (
        select from unnest(head_projects, head_streams, head_revisions) as known(project_id, stream_id, revision)
        join stream_heads h using (project_id, stream_id, revision) for share of h skip locked
    ) held;
    if met <> cardinality(head_projects) then
        return null;
    end if;
    select count(*) into met from unnest(senders, dsn_hashes, accounts) as known(project_id, dsn_hash, account_id)
    join projects p on p.project_id = known.project_id and p.id = known.project_id and p.dsn_hash = known.dsn_hash
    where p.status = 'active' and known.account_id = paying_account(p.project_id, p.created_by);
    if met <> cardinality(senders) then
        return null;
    end if;
    moment := service_now();
    perform ingest_store(moment, flusher, number, new_logs, new_analytics, null, new_cases, new_users, new_usage);
    return floor(extract(epoch from moment));
end
$body$;
