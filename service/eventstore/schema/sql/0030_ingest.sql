-- Ingest: telemetry in day partitions, what is counted from it, and the read models of cases, rules and deploys.
--
-- Telemetry and its counters are facts: no event holds them and no projection folds them, so a rebuild can neither
-- lose nor repeat them. Times are epoch seconds of service_now(); a client's clock is never stored.

create table log_events (
    project_id  text   collate "C" not null,
    received_at bigint not null,
    id          text   collate "C" not null,
    level       text   collate "C" not null,
    message     text   not null,
    environment text   collate "C" not null,
    release     text   collate "C",
    user_id     text   collate "C",
    user_data   jsonb,            -- the whole `user` object, user_id included
    tags        jsonb  not null,
    extra       jsonb  not null,
    case_id     text   collate "C",  -- null below error level
    fingerprint text   collate "C",
    grouped_by  text,                -- which version of the grouping put it there, and on what evidence
    marker_hash text   collate "C",  -- SHA-256 of the proof marker that came along; the marker itself is not kept
    primary key (project_id, received_at, id)
) partition by range (received_at);
create index log_events_case on log_events (project_id, case_id, received_at, id) where case_id is not null;
create index log_events_user on log_events (project_id, user_id, received_at) where user_id is not null;
create index log_events_marker on log_events (project_id, marker_hash, received_at) where marker_hash is not null;
-- Catches every day that has no partition yet; maintenance moves its rows when the day gets one.
create table log_events_default partition of log_events default;

create table analytics_events (
    project_id  text   collate "C" not null,
    received_at bigint not null,
    id          text   collate "C" not null,
    event       text   collate "C" not null,
    distinct_id text   collate "C" not null,
    properties  jsonb  not null,
    marker_hash text   collate "C",
    primary key (project_id, received_at, id)
) partition by range (received_at);
create index analytics_events_event on analytics_events (project_id, event, received_at);
create index analytics_events_person on analytics_events (project_id, distinct_id, received_at);
create index analytics_events_marker on analytics_events (project_id, marker_hash, received_at)
    where marker_hash is not null;
create table analytics_events_default partition of analytics_events default;

-- What a case looks like and how often it happened. One row per case, written by whoever counts an error into it.
create table case_stats (
    project_id     text   collate "C" not null,
    id             text   collate "C" not null,  -- the case
    title          text   not null,
    message        text   not null,              -- of the first error
    culprit        text,
    level          text   not null,              -- this and the next two: of the latest error
    environment    text   not null,
    release        text,
    environments   text[] not null,
    releases       text[] not null,
    unmarked       boolean not null,             -- some error came without a proof marker
    event_count    bigint not null,
    users_affected bigint not null,
    first_seen_at  bigint not null,
    last_seen_at   bigint not null,
    sample         jsonb,                        -- the latest error, once retention has removed its row
    primary key (project_id, id)
) with (fillfactor = 70);

create table case_users (
    project_id    text   collate "C" not null,
    case_id       text   collate "C" not null,
    user_id       text   collate "C" not null,
    user_email    text,
    error_count   bigint not null,
    first_seen_at bigint not null,
    last_seen_at  bigint not null,
    primary key (project_id, case_id, user_id)
) with (fillfactor = 80);
create index case_users_user on case_users (project_id, user_id);

-- Accepted records by project and UTC day, under the account that pays for them: the project's first owner at that
-- time. Kept when the project goes, so that deleting a project does not give quota back.
create table usage_days (
    project_id       text   collate "C" not null,
    account_id       text   collate "C" not null,
    day              bigint not null,  -- epoch of UTC midnight
    errors           bigint not null,
    analytics        bigint not null,
    suppressed       bigint not null,  -- those of `errors` that a rule kept out of attention
    scrubbed         bigint not null,  -- values hidden before they were stored
    last_received_at bigint not null,
    primary key (project_id, account_id, day)
) with (fillfactor = 50);
create index usage_days_account on usage_days (account_id, day);

-- One row per recorded deploy: deploys are commands, and a command writes only rows of streams that it holds.
create table usage_deploys (
    project_id text   collate "C" not null,
    id         text   collate "C" not null,
    account_id text   collate "C" not null,
    day        bigint not null,
    scrubbed   bigint not null,
    primary key (project_id, id)
);
create index usage_deploys_account on usage_deploys (account_id, day);

-- The last batch that each flusher has committed: how it learns what became of a commit whose answer was lost.
create table ingest_flushers (
    id      text   collate "C" primary key,
    batch   bigint not null,
    seen_at bigint not null
) with (fillfactor = 50);

create table cases (
    project_id       text   collate "C" not null,
    id               text   collate "C" not null,
    revision         bigint not null,
    case_revision    bigint not null,
    status           text   collate "C" not null,
    fingerprint      text   collate "C" not null,
    grouping_version bigint not null,
    suppression_id   text   collate "C",
    opened_at        bigint not null,
    resolved_at      bigint,
    primary key (project_id, id)
);
create index cases_newest on cases (project_id, opened_at, id);
create index cases_id on cases (id);
create index cases_open on cases (project_id) where status = 'open';

create table suppressions (
    project_id text   collate "C" not null,
    id         text   collate "C" not null,
    revision   bigint not null,
    rules      jsonb  not null,
    primary key (project_id, id)
);

create table deploys (
    project_id        text   collate "C" not null,
    id                text   collate "C" not null,
    revision          bigint not null,
    version           text   not null,
    environment       text   collate "C" not null,
    sha               text   collate "C",
    branch            text,
    source            text   not null,
    trusted           boolean not null,
    credential_id     text   collate "C",
    proof_marker_hash text   collate "C",
    proof_session_id  text   collate "C",
    automation_run_id text   collate "C",
    recorded_at       bigint not null,
    primary key (project_id, id)
);
create index deploys_newest on deploys (project_id, recorded_at, id);

create table deploy_notes (
    project_id text collate "C" not null,
    id         text collate "C" not null,
    message    text not null,
    primary key (project_id, id)
);

-- [project, DSN hash, status, account] of projects: what their records are judged by. The account that pays is the
-- first owner; who made the project stands in while nobody owns it.
create function ingest_projects(wanted text[]) returns json language sql stable as $body$
    select json_agg(json_build_array(p.project_id, p.dsn_hash, p.status, coalesce((
        select m.user_id from memberships m where m.project_id = p.project_id and m.role = 'owner'
        order by m.created_at, m.id limit 1), p.created_by)))
    from projects p where p.project_id = any(wanted) and p.id = p.project_id
$body$;

-- The locks of a flush that only counts, and what is read under them, in one statement: gates, names and heads are
-- tried and never waited for, and each query here sees what was committed before it began (the function is volatile).
-- Answers what it got: the moment, the numbers of gates and names, [project, stream, revision] of each head, the
-- idempotency records that exist, and [project, DSN hash, status, account] of each sender's project.
create function ingest_lock(
    gates bigint[], wanted bigint[], head_projects text[], head_streams text[], record_names json, senders text[]
) returns json language plpgsql as $body$
declare
    got_gates  json;
    got_names  json;
    got_heads  json;
    found      json;
    projects   json;
begin
    select json_agg(g) into got_gates from unnest(gates) g where pg_try_advisory_xact_lock_shared(g);
    select json_agg(w) into got_names from unnest(wanted) w where pg_try_advisory_xact_lock(w);
    with held as (
        select h.project_id, h.stream_id, h.revision from stream_heads h
        where (h.project_id, h.stream_id) in (select * from unnest(head_projects, head_streams))
        order by h.project_id, h.stream_id for share of h skip locked
    )
    select json_agg(json_build_array(h.project_id, h.stream_id, h.revision)) into got_heads from held h;
    if record_names is not null then
        select json_agg(json_build_array(i.project_id, i.principal, i.operation, i.key, i.fingerprint, i.command_id,
            i.status, convert_from(i.body, 'UTF8'))) into found
        from json_to_recordset(record_names) as n(project_id text, principal text, operation text, key text)
        join idempotency i on i.project_id = n.project_id and i.principal = n.principal
            and i.operation = n.operation and i.key = n.key;
    end if;
    select ingest_projects(senders) into projects;
    return json_build_object('moment', service_now(), 'gates', got_gates, 'names', got_names, 'heads', got_heads,
        'records', found, 'projects', projects);
end
$body$;

-- Everything a flush writes beside events, in one statement and always in this order: every flush of every process
-- locks counter rows in it, last and in key order, so none waits for another in a circle. Each parameter holds rows as
-- a JSON array, or is null; all of them were received at this moment.
create function ingest_store(
    moment timestamptz, flusher text, number bigint, new_logs json, new_analytics json, new_records json,
    new_cases json, new_users json, new_usage json
) returns void language plpgsql as $body$
declare
    seconds  constant bigint := floor(extract(epoch from moment));
    midnight constant bigint := seconds - seconds % 86400;
begin
    if new_logs is not null then
        insert into log_events (project_id, received_at, id, level, message, environment, release, user_id, user_data,
            tags, extra, case_id, fingerprint, grouped_by, marker_hash)
        select u.project_id, seconds, u.id, u.level, u.message, u.environment, u.release, u.user_id, u.user_data,
            u.tags, u.extra, u.case_id, u.fingerprint, u.grouped_by, u.marker_hash
        from json_to_recordset(new_logs) as u(project_id text, id text, level text, message text, environment text,
            release text, user_id text, user_data jsonb, tags jsonb, extra jsonb, case_id text, fingerprint text,
            grouped_by text, marker_hash text);
    end if;

    if new_analytics is not null then
        insert into analytics_events (project_id, received_at, id, event, distinct_id, properties, marker_hash)
        select u.project_id, seconds, u.id, u.event, u.distinct_id, u.properties, u.marker_hash
        from json_to_recordset(new_analytics) as u(project_id text, id text, event text, distinct_id text,
            properties jsonb, marker_hash text);
    end if;

    if new_records is not null then
        insert into idempotency (project_id, principal, operation, key, fingerprint, command_id, client_key, status,
            body, headers, created_at)
        select u.project_id, u.principal, u.operation, u.key, u.fingerprint, u.command_id, true, u.status,
            convert_to(u.body, 'UTF8'), '{}', moment
        from json_to_recordset(new_records) as u(project_id text, principal text, operation text, key text,
            fingerprint text, command_id text, status int, body text);
    end if;

    if new_cases is not null then
        -- Who sends a new environment or release with every event does not make the row grow for ever.
        insert into case_stats as t (project_id, id, title, message, culprit, level, environment, release,
            environments, releases, unmarked, event_count, users_affected, first_seen_at, last_seen_at)
        select u.project_id, u.id, u.title, u.message, u.culprit, u.level, u.environment, u.release,
            u.environments[1:100], u.releases[1:100], u.unmarked, u.event_count, 0, seconds, seconds
        from json_to_recordset(new_cases) as u(project_id text, id text, title text, message text, culprit text,
            level text, environment text, release text, environments text[], releases text[], unmarked boolean,
            event_count bigint)
        on conflict (project_id, id) do update set
            level = excluded.level, environment = excluded.environment, release = excluded.release,
            environments = case when t.environments @> excluded.environments then t.environments else
                (t.environments || array(select v from unnest(excluded.environments) v
                    where v <> all (t.environments)))[1:100] end,
            releases = case when t.releases @> excluded.releases then t.releases else
                (t.releases || array(select v from unnest(excluded.releases) v
                    where v <> all (t.releases)))[1:100] end,
            unmarked = t.unmarked or excluded.unmarked,
            event_count = t.event_count + excluded.event_count,
            last_seen_at = greatest(t.last_seen_at, excluded.last_seen_at);
    end if;

    if new_users is not null then
        -- xmax is 0 only in a row that was inserted, so each person counts once.
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
        ), fresh as (
            select s.project_id, s.case_id, count(*) as people from seen s where s.fresh group by 1, 2
        )
        update case_stats t set users_affected = t.users_affected + f.people
        from fresh f where t.project_id = f.project_id and t.id = f.case_id;
    end if;

    insert into usage_days as t (project_id, account_id, day, errors, analytics, suppressed, scrubbed,
        last_received_at)
    select u.project_id, u.account_id, midnight, u.errors, u.analytics, u.suppressed, u.scrubbed, seconds
    from json_to_recordset(new_usage) as u(project_id text, account_id text, errors bigint, analytics bigint,
        suppressed bigint, scrubbed bigint)
    on conflict (project_id, account_id, day) do update set
        errors = t.errors + excluded.errors,
        analytics = t.analytics + excluded.analytics,
        suppressed = t.suppressed + excluded.suppressed,
        scrubbed = t.scrubbed + excluded.scrubbed,
        last_received_at = greatest(t.last_received_at, excluded.last_received_at);

    insert into ingest_flushers as t (id, batch, seen_at) values (flusher, number, seconds)
    on conflict (id) do update set batch = excluded.batch, seen_at = excluded.seen_at;
end
$body$;

-- Give a day its own partition of a telemetry table. `day` is the epoch of its midnight. Returns whether it has one.
-- Rows of the day that the default partition caught meanwhile move along, unless they are so many that moving them
-- would hold up ingest: then they stay where they are, and so does everything else of that day.
create function ensure_partition(telemetry text, day bigint, most_moved bigint default 100000) returns boolean
language plpgsql as $body$
declare
    fallback constant text := telemetry || '_default';
    wanted   constant text := telemetry || '_' || to_char(to_timestamp(day) at time zone 'UTC', 'YYYYMMDD');
    caught   bigint;
begin
    if to_regclass(wanted) is not null then
        return true;
    end if;
    execute format('lock table %I in access exclusive mode', fallback);
    execute format('select count(*) from (select 1 from %I where received_at >= $1 and received_at < $1 + 86400
        limit $2 + 1) c', fallback) into caught using day, most_moved;
    if caught > most_moved then
        return false;
    end if;
    execute format('create table %I (like %I including defaults)', wanted, telemetry);
    if caught > 0 then
        execute format('with moved as (delete from %I where received_at >= $1 and received_at < $1 + 86400 returning *)
            insert into %I select * from moved', fallback, wanted) using day;
    end if;
    execute format('alter table %I attach partition %I for values from (%s) to (%s)',
        telemetry, wanted, day, day + 86400);
    return true;
end
$body$;

-- From yesterday (a clock may be a little behind) to a week ahead.
do $body$
declare
    today bigint := floor(extract(epoch from service_now()) / 86400)::bigint * 86400;
begin
    for ahead in -1..7 loop
        perform ensure_partition('log_events', today + ahead * 86400);
        perform ensure_partition('analytics_events', today + ahead * 86400);
    end loop;
end
$body$;
