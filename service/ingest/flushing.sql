-- facts --
-- The clock of a flush, with the projects of its senders and their public DSNs.
select (select service_now()), ingest_projects(wanted => %s)::text, ingest_public_dsns(wanted => %s)::text

-- lock --
-- Lock what a flush needs, and read the heads, records and senders.
select ingest_lock(gates => %s, wanted => %s, head_projects => %s, head_streams => %s,
    record_names => %s::json, senders => %s)::text

-- store --
-- Store the records of a flush with the counts of their cases, people and usage.
select ingest_store(moment => %s, flusher => %s, number => %s, new_records => %s::json, new_logs => %s::json,
    new_analytics => %s::json, new_cases => %s::json, new_users => %s::json, new_usage => %s::json)

-- parts --
-- Store the answers of batches that are told in parts.
select ingest_parts(moment => %s, new_parts => %s::json)

-- flush --
-- Lock, check and store in one statement, where no case moves. Null: something moved meanwhile.
select ingest_flush(gates => %s, key_locks => %s, flusher_lock => %s, head_projects => %s,
    head_streams => %s, head_revisions => %s, senders => %s, dsn_hashes => %s, accounts => %s, flusher => %s,
    number => %s, new_records => %s::json, new_parts => %s::json, new_logs => %s::json, new_analytics => %s::json,
    new_cases => %s::json, new_users => %s::json, new_usage => %s::json)

-- enter_rooms --
-- Lock how many cases projects have opened within the hour.
insert into case_rates as r (project_id, hour, opened) select p, %s, 0 from unnest(%s::text[]) p order by p
on conflict (project_id) do update set hour = greatest(r.hour, excluded.hour),
    opened = case when r.hour < excluded.hour then 0 else r.opened end,
    opened_public = case when r.hour < excluded.hour then 0 else least(r.opened_public, r.opened) end
returning r.project_id, r.hour, r.opened, r.opened_public

-- leave_rooms --
-- Count the cases opened by a flush.
update case_rates r set opened = r.opened + u.opened, opened_public = r.opened_public + u.by_public
from unnest(%s::text[], %s::bigint[], %s::bigint[]) u(project_id, opened, by_public) where r.project_id = u.project_id

-- last_batch --
-- The last flush of a process, and when it was seen.
select batch, seen_at from ingest_flushers where id = %s

-- wait_name --
-- Wait for a name that a lost session may still hold.
select pg_advisory_xact_lock(%s::bigint)

-- give_up --
-- Note that a flush of a process is given up, so that it cannot be stored any more.
insert into ingest_flushers as f (id, batch, seen_at, given_up)
values (%s, 0, (select service_seconds()), %s)
on conflict (id) do update set given_up = excluded.given_up

-- end_session --
-- End a session of this service.
select pg_terminate_backend(pid) from pg_stat_activity where pid = %s and application_name = %s

-- standing --
-- The number of a project's last look at its provider, and the connection that stands.
select coalesce((select l.number from provider_looks l where l.project_id = %s), 0), (
    select c.id from provider_connections c where c.project_id = %s and c.status = 'connected'
    order by c.connected_at desc, c.id desc limit 1)

-- store_provided --
-- Store what a look found at the provider.
select provider_store(moment => %s, look => %s::json, new_cases => %s::json, new_counts => %s::json,
    new_groups => %s::json, uuids => %s, last_at => %s)

-- drop_provided --
-- Forget the looks at a connection that no longer stands.
select drop_provided(project => %s)

-- drop_look --
-- Forget how far the provider of a disconnected project was read.
delete from provider_looks where project_id = %s

-- repaired_by --
-- The version by which each resolved case of an error was repaired, and whether the error's release was last deployed
-- before it. A release without a name is of the package that was last deployed as that version.
select w.project_id, w.environment, w.release, w.resolved_at, present.version,
    coalesce((last.recorded_at, last.id) < (present.recorded_at, present.id), false)
from unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::text[], %s::text[])
    as w(project_id, environment, release, resolved_at, name, bare)
left join lateral (
    select
    \include package_of_deploy
    as name, d.recorded_at, d.id from deploys d
    where d.project_id = w.project_id and d.environment = w.environment and
    \include version_of_deploy
    = w.bare
        and (w.name = '' or
        \include package_of_deploy
        in ('', w.name))
    order by d.recorded_at desc, d.id desc limit 1) last on true
cross join lateral (select coalesce(nullif(w.name, ''), last.name, '') as name) package
cross join lateral (
    select d.version, d.recorded_at, d.id from deploys d
    where d.project_id = w.project_id and d.environment = w.environment and d.recorded_at <= w.resolved_at
        and (package.name = '' or
        \include package_of_deploy
        in ('', package.name))
    order by d.recorded_at desc, d.id desc limit 1) present

-- part package_of_deploy --
-- The package that deploy `d` names in its version, else nothing: as statemachines/deploys/releases.py has it.
regexp_replace(d.version, '^(?:(.+)@)?(?:[vV](?=[0-9]))?([^+]*).*$', '\1')

-- part version_of_deploy --
-- The version of deploy `d` without its package and build.
regexp_replace(d.version, '^(?:(.+)@)?(?:[vV](?=[0-9]))?([^+]*).*$', '\2')
