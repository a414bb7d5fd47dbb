-- Everything a flush writes beside events, in one statement and always in this order: every flush of every process
-- locks counter rows in it, last and in key order, so none waits for another in a circle. Each parameter holds rows as
-- a JSON array, or is null; all of them were received at this moment.
create or replace function ingest_store(
    moment timestamptz, flusher text, number bigint, new_logs json, new_analytics json, new_records json,
    new_cases json, new_users json, new_usage json
) returns void language plpgsql as $body$
declare
    seconds  constant bigint := floor(extract(epoch from moment));
    midnight constant bigint := seconds - seconds % 86400;
    fresh_projects text[];  -- of each person who is new to a case
    fresh_cases    text[];
begin
    if new_logs is not null then
        insert into log_events (project_id, received_at, id, level, message, environment, release, user_id, user_data,
            tags, extra, packed, case_id, fingerprint, grouped_by, marker_hash, adjusted, public, occurred_at)
        select u.project_id, seconds, u.id, u.level, u.message, u.environment, u.release, u.user_id, u.user_data,
            u.tags, u.extra, decode(u.packed, 'base64'), u.case_id, u.fingerprint, u.grouped_by, u.marker_hash,
            u.adjusted, coalesce(u.public, false),
            case when starts_with(coalesce(u.marker_hash, ''), 'import:') then least(u.happened, seconds)
                else occurred(happened => u.happened, sent => u.sent, received => seconds,
                    public => coalesce(u.public, false)) end
        from json_to_recordset(new_logs) as u(project_id text, id text, level text, message text, environment text,
            release text, user_id text, user_data jsonb, tags jsonb, extra jsonb, packed text, case_id text,
            fingerprint text, grouped_by text, marker_hash text, adjusted jsonb, public boolean, happened bigint,
            sent bigint);
    end if;

    if new_analytics is not null then
        insert into analytics_events (project_id, received_at, id, event, distinct_id, properties, marker_hash,
            adjusted, public, occurred_at)
        select u.project_id, seconds, u.id, u.event, u.distinct_id, u.properties, u.marker_hash, u.adjusted,
            coalesce(u.public, false),
            occurred(happened => u.happened, sent => u.sent, received => seconds, public => coalesce(u.public, false))
        from json_to_recordset(new_analytics) as u(project_id text, id text, event text, distinct_id text,
            properties jsonb, marker_hash text, adjusted jsonb, public boolean, happened bigint, sent bigint);
    end if;

    -- What the release before says of people, it says in properties alone.
    if new_analytics is not null and strpos(new_usage::text, '"people":[') > 0 then
        perform ingest_people(seconds => seconds, new_usage => new_usage);
    end if;

    if new_records is not null then
        -- An answer that was made before this moment was known has 0 in its place. Quotes in a text are escaped.
        insert into idempotency (project_id, principal, operation, key, fingerprint, command_id, client_key, status,
            body, headers, created_at)
        select u.project_id, u.principal, u.operation, u.key, u.fingerprint, u.command_id, true, u.status,
            convert_to(replace(u.body, '"received_at":0,', '"received_at":' || seconds || ','), 'UTF8'), '{}', moment
        from json_to_recordset(new_records) as u(project_id text, principal text, operation text, key text,
            fingerprint text, command_id text, status int, body text);
    end if;

    if new_cases is not null then
        -- The release before tells nothing of public DSNs, which it does not know: all it counts is a server's.
        insert into case_stats as t (project_id, id, title, message, culprit, level, environment, release,
            environments, releases, unmarked, event_count, users_affected, first_seen_at, last_seen_at,
            public_count, server_last_seen_at, server_unmarked, server_environments, first_occurred_at,
            last_occurred_at, tags)
        select u.project_id, u.id, u.title, u.message, u.culprit, u.level, u.environment, u.release,
            u.environments[1:100], u.releases[1:100], u.unmarked, u.event_count, 0, seconds, seconds,
            coalesce(u.public_count, 0),
            case when u.public_count > 0 then case when u.server_seen then seconds when u.doubted then 0 end end,
            case when u.public_count > 0 then u.server_unmarked end,
            case when u.public_count > 0 then u.server_environments[1:100] end, o.first_at, o.last_at,
            u.tags
        from json_to_recordset(new_cases) as u(project_id text, id text, title text, message text, culprit text,
            level text, environment text, release text, environments text[], releases text[], unmarked boolean,
            event_count bigint, public_count bigint, server_environments text[], server_unmarked boolean,
            server_seen boolean, doubted boolean, happened bigint[], sent bigint[], by_public boolean[], untimed boolean,
            tags text[])
        cross join lateral (
            select coalesce(min(h.at), seconds) as first_at,
                case when u.untimed then seconds else coalesce(max(h.at), seconds) end as last_at
            from (
                select case when c.public is null then least(c.happened, seconds)
                    else occurred(happened => c.happened, sent => c.sent, received => seconds, public => c.public)
                    end as at
                from unnest(u.happened, u.sent, u.by_public) as c(happened, sent, public)) h) o
        on conflict (project_id, id) do update set
            level = excluded.level, environment = excluded.environment, release = excluded.release,
            environments = case when t.environments @> excluded.environments then t.environments
                else added_names(before => t.environments, more => excluded.environments) end,
            releases = case when t.releases @> excluded.releases then t.releases
                else added_names(before => t.releases, more => excluded.releases) end,
            unmarked = t.unmarked or excluded.unmarked,
            event_count = greatest(coalesce(t.own_count, t.event_count) + excluded.event_count, t.provider_count),
            own_count = t.own_count + excluded.event_count,
            own_first_seen_at = case when t.own_count is not null
                then least(t.own_first_seen_at, excluded.first_seen_at) end,
            own_last_seen_at = case when t.own_count is not null
                then greatest(t.own_last_seen_at, excluded.last_seen_at) end,
            own_unmarked = case when t.own_count is not null then t.own_unmarked or excluded.unmarked end,
            last_seen_at = greatest(t.last_seen_at, excluded.last_seen_at),
            first_occurred_at = least(coalesce(t.first_occurred_at, t.first_seen_at), excluded.first_occurred_at),
            last_occurred_at = greatest(coalesce(t.last_occurred_at, t.last_seen_at), excluded.last_occurred_at),
            public_count = t.public_count + excluded.public_count,
            server_last_seen_at = case when t.public_count + excluded.public_count = 0 then null
                when excluded.public_count = 0 then greatest(t.server_last_seen_at, excluded.last_seen_at)
                when excluded.server_last_seen_at is not null then excluded.server_last_seen_at
                when t.public_count = 0 then t.last_seen_at else t.server_last_seen_at end,
            server_unmarked = case when t.public_count + excluded.public_count > 0 then
                coalesce(t.server_unmarked, t.unmarked) or coalesce(excluded.server_unmarked, excluded.unmarked) end,
            server_environments = case when t.public_count + excluded.public_count > 0 then
                added_names(before => coalesce(t.server_environments, t.environments),
                    more => coalesce(excluded.server_environments, excluded.environments)) end;
    end if;

    if new_users is not null then
        -- xmax is 0 only in a row that was inserted, so each person counts once. Most flushes bring nobody new, and to
        -- begin an update takes as long as some rows of it.
        with seen as (
            insert into case_users as t (project_id, case_id, user_id, user_email, error_count, first_seen_at,
                last_seen_at)
            select u.project_id, u.case_id, u.user_id, u.user_email, u.error_count, seconds, seconds
            from json_to_recordset(new_users) as u(project_id text, case_id text, user_id text, user_email text,
                error_count bigint)
            on conflict (project_id, case_id, user_id) do update set
                user_email = coalesce(excluded.user_email, t.user_email),
                error_count = t.error_count + excluded.error_count,
                last_seen_at = greatest(t.last_seen_at, excluded.last_seen_at)
            returning t.project_id, t.case_id, t.xmax = 0 as fresh
        )
        select array_agg(s.project_id), array_agg(s.case_id) into fresh_projects, fresh_cases from seen s where s.fresh;
        if fresh_cases is not null then
            update case_stats t set own_people = t.own_people + f.people,
                users_affected = greatest(coalesce(t.own_people, t.users_affected) + f.people, t.provider_people)
            from (
                select s.project_id, s.case_id, count(*) as people
                from unnest(fresh_projects, fresh_cases) as s(project_id, case_id) group by 1, 2
            ) f
            where t.project_id = f.project_id and t.id = f.case_id;
        end if;
    end if;

    if new_analytics is not null then
        perform ingest_names(seconds => seconds, new_usage => new_usage, new_analytics => new_analytics);
    end if;

    -- The release before names no kinds.
    insert into usage_days as t (project_id, account_id, day, errors, analytics, suppressed, scrubbed, scrubbed_kinds,
        last_received_at)
    select u.project_id, u.account_id, midnight, u.errors, u.analytics, u.suppressed, u.scrubbed,
        coalesce(u.scrubbed_kinds, '{}'), seconds
    from json_to_recordset(new_usage) as u(project_id text, account_id text, errors bigint, analytics bigint,
        suppressed bigint, scrubbed bigint, scrubbed_kinds jsonb)
    where u.project_id is not null  -- Others hold what ingest_names counts, and what is said of people.
    on conflict (project_id, account_id, day) do update set
        errors = t.errors + excluded.errors,
        analytics = t.analytics + excluded.analytics,
        suppressed = t.suppressed + excluded.suppressed,
        scrubbed = t.scrubbed + excluded.scrubbed,
        scrubbed_kinds = case when excluded.scrubbed_kinds = '{}' then t.scrubbed_kinds
            else added_kinds(before => t.scrubbed_kinds, more => excluded.scrubbed_kinds) end,
        last_received_at = greatest(t.last_received_at, excluded.last_received_at);

    insert into ingest_flushers as t (id, batch, seen_at) values (flusher, number, seconds)
    on conflict (id) do update set batch = excluded.batch, seen_at = excluded.seen_at;
end
$body$;
