-- Writes what one step of a look at a provider counted, with its cursor (G-182). `look` is a row of provider_looks,
-- `uuids` what the step counted in hex, with the last of their times. Counts of a case and of its minutes are added to;
-- a sample replaces the one before.
create or replace function provider_store(
    moment timestamptz, look json, new_cases json, new_counts json, new_groups json, uuids text, last_at bigint
) returns void language plpgsql as $body$
declare
    seconds constant bigint := floor(extract(epoch from moment));
    project constant text := look ->> 'project_id';
    step    constant bigint := (look ->> 'number')::bigint;
begin
    insert into case_stats as t (project_id, id, title, message, culprit, level, environment, release, environments,
        releases, unmarked, event_count, users_affected, first_seen_at, last_seen_at, first_occurred_at,
        last_occurred_at, own_count, own_people, own_unmarked, provider_count, provider_people, provider_last_seen_at,
        provider_sample)
    select project, u.id, u.title, u.message, u.culprit, u.level, u.environment, u.release, u.environments[1:100],
        u.releases[1:100], u.unmarked, u.errors, u.people, u.first_at, u.last_at, u.first_at, u.last_at, 0, 0, false,
        u.errors, u.people, u.last_at, u.sample
    from json_to_recordset(new_cases) as u(id text, title text, message text, culprit text, level text,
        environment text, release text, environments text[], releases text[], unmarked boolean, errors bigint,
        people bigint, first_at bigint, last_at bigint, sample jsonb)
    order by u.id
    on conflict (project_id, id) do update set
        level = case when excluded.last_seen_at < t.last_seen_at then t.level else excluded.level end,
        environment = case when excluded.last_seen_at < t.last_seen_at then t.environment else excluded.environment end,
        release = case when excluded.last_seen_at < t.last_seen_at then t.release else excluded.release end,
        environments = added_names(before => t.environments, more => excluded.environments),
        releases = added_names(before => t.releases, more => excluded.releases),
        unmarked = t.unmarked or excluded.unmarked,
        event_count = greatest(coalesce(t.own_count, t.event_count),
            coalesce(t.provider_count, 0) + excluded.provider_count),
        users_affected = greatest(coalesce(t.own_people, t.users_affected), t.provider_people, excluded.provider_people),
        first_seen_at = least(t.first_seen_at, excluded.first_seen_at),
        last_seen_at = greatest(t.last_seen_at, excluded.last_seen_at),
        first_occurred_at = least(coalesce(t.first_occurred_at, t.first_seen_at), excluded.first_occurred_at),
        last_occurred_at = greatest(coalesce(t.last_occurred_at, t.last_seen_at), excluded.last_occurred_at),
        own_count = coalesce(t.own_count, t.event_count),
        own_people = coalesce(t.own_people, t.users_affected),
        own_first_seen_at = case when t.own_count is null then t.first_seen_at else t.own_first_seen_at end,
        own_last_seen_at = case when t.own_count is null then t.last_seen_at else t.own_last_seen_at end,
        own_unmarked = coalesce(t.own_unmarked, t.unmarked),
        provider_count = coalesce(t.provider_count, 0) + excluded.provider_count,
        provider_people = greatest(t.provider_people, excluded.provider_people),
        provider_last_seen_at = greatest(t.provider_last_seen_at, excluded.provider_last_seen_at),
        provider_sample = coalesce(excluded.provider_sample, t.provider_sample),
        server_last_seen_at = case when t.public_count > 0
            then greatest(t.server_last_seen_at, excluded.last_seen_at) end,
        server_unmarked = case when t.public_count > 0 then t.server_unmarked or excluded.unmarked end,
        server_environments = case when t.public_count > 0
            then added_names(before => t.server_environments, more => excluded.environments) end;

    insert into provider_counts as t (project_id, case_id, minute, environment, release, errors, synthetic, people,
        last_at)
    select project, u.case_id, u.minute, u.environment, u.release, u.errors, u.synthetic, u.people, u.last_at
    from json_to_recordset(new_counts) as u(case_id text, minute bigint, environment text, release text, errors bigint,
        synthetic bigint, people bigint, last_at bigint)
    order by u.case_id, u.minute, u.environment, u.release
    on conflict (project_id, case_id, minute, environment, release) do update set
        errors = t.errors + excluded.errors, synthetic = t.synthetic + excluded.synthetic,
        people = greatest(t.people, excluded.people), last_at = greatest(t.last_at, excluded.last_at);

    -- What was met a week ago is met anew, with a sample of then.
    if json_array_length(new_groups) > 0 then
        delete from provider_groups t where t.project_id = project and t.met_at < seconds - 604800;
    end if;
    insert into provider_groups as t (project_id, id, offered, met_at)
    select project, u.id, u.offered, seconds from json_to_recordset(new_groups) as u(id text, offered jsonb)
    on conflict (project_id, id) do update set offered = excluded.offered, met_at = excluded.met_at;

    if uuids <> '' then
        insert into provider_uuids (project_id, number, last_at, kept_at, uuids)
        values (project, step, provider_store.last_at, seconds, decode(provider_store.uuids, 'hex'));
    end if;
    insert into provider_looks as t
    select l.* from json_populate_record(null::provider_looks, look) l
    on conflict (project_id, id) do update set connection_id = excluded.connection_id, place = excluded.place,
        number = excluded.number, cursor_at = excluded.cursor_at, read_to = excluded.read_to,
        skipped = t.skipped + excluded.skipped;
    -- The overlap is of 120 seconds, and no look reaches back for half an hour.
    delete from provider_uuids t where t.project_id = project
        and (t.last_at < (look ->> 'cursor_at')::bigint - 120 or t.kept_at < seconds - 1800);
end
$body$;
