-- registered_client --
-- The client that was registered at a provider, and the last attempt.
select attempt, claimed_until, sealed, registered_at from provider_clients
where authority = %(authority)s and redirect_uri = %(redirect_uri)s

-- claim_client --
-- Claims the next attempt to register a client, unless somebody else has claimed one since the last look.
insert into provider_clients as c (authority, redirect_uri, attempt, claimed_until)
values (%(authority)s, %(redirect_uri)s, 1, %(until)s)
on conflict (authority, redirect_uri) do update set attempt = c.attempt + 1, claimed_until = excluded.claimed_until
where c.attempt = %(seen)s and c.claimed_until <= %(now)s
returning attempt

-- keep_client --
-- Ends an attempt to register a client, with the client or without one. Too late an attempt changes nothing.
update provider_clients
set claimed_until = 0, sealed = %(sealed)s::text,
    registered_at = case when %(sealed)s::text is null then null else %(now)s::bigint end
where authority = %(authority)s and redirect_uri = %(redirect_uri)s and attempt = %(attempt)s
returning attempt

-- proof_events --
-- The newest events of each name that carry a proof's marker, and those that carry another one: rows under markers are
-- few, and found through their index however frequent an event is.
select w.event, r.received_at, r.marker_hash, abridged(object => r.properties, names => %(names)s)
from unnest(%(events)s::text[]) w(event)
cross join lateral (
    select received_at, marker_hash, properties from analytics_events
    where project_id = %(project_id)s and marker_hash = %(marker)s and event = w.event
        and received_at >= %(since)s and received_at < %(until)s
    order by received_at desc limit %(most)s
) r
union all
select s.event, max(s.received_at), s.marker_hash, '{}'::jsonb
from (
    select event, received_at, marker_hash from analytics_events
    where project_id = %(project_id)s and marker_hash is not null and marker_hash <> %(marker)s
        and event = any(%(events)s::text[]) and received_at >= %(since)s and received_at < %(until)s
    limit %(most_stray)s
) s
group by s.event, s.marker_hash

-- proof_errors --
-- The newest errors that show a failure and carry a proof's marker, and those that carry another one.
select r.message, r.received_at, r.marker_hash, abridged(object => r.tags, names => %(names)s),
    abridged(object => r.extra, names => %(names)s), abridged(object => r.user_data, names => %(names)s)
from (
    (select message, received_at, marker_hash, tags, extra, user_data from log_events
    where project_id = %(project_id)s and marker_hash = %(marker)s and level in ('error', 'fatal')
        and received_at >= %(since)s and received_at < %(until)s
        and (tags ->> %(key)s = %(failure)s or extra ->> %(key)s = %(failure)s or strpos(message, %(failure)s) > 0)
    order by received_at desc limit %(most)s)
    union all
    (select message, received_at, marker_hash, tags, extra, null from log_events
    where project_id = %(project_id)s and marker_hash is not null and marker_hash <> %(marker)s
        and level in ('error', 'fatal') and received_at >= %(since)s and received_at < %(until)s
        and (tags ->> %(key)s = %(failure)s or extra ->> %(key)s = %(failure)s or strpos(message, %(failure)s) > 0)
    limit %(most_stray)s)
) r

-- confine --
-- Confines the rest of a transaction to the records of one project: its views show no others. Where there is a role for
-- queries, which has the name of the one that serves with _queries behind it, that one sees no more than the views.
select set_config('service.project_id', %(project_id)s, true), set_config('role', coalesce((
    select r.rolname::text from pg_roles r
    where r.rolname = session_user || '_queries' and pg_has_role(r.oid, 'member')), 'none'), true)

-- event_count --
-- How many events of a name came in a period by the server's DSN, and by the public one, also of people who were
-- erased; and whether any came by the server's in the time before it. Those of one environment count, and those
-- without one where less than half of the newest before the period name one: of how many, and how many do.
with newest as (
    (select e.received_at,
        \include named_environment
        as environment
    from analytics_events e
    where e.project_id = %(project_id)s and e.event = %(event)s and e.received_at <= %(since)s
    order by e.received_at desc limit %(looked)s)
    union all
    (select r.received_at, r.environment from erased_records r
    where r.project_id = %(project_id)s and r.event = %(event)s and r.received_at <= %(since)s
    order by r.received_at desc limit %(looked)s)
), usual as (
    select count(*) as looked, count(n.environment) as named
    from (select w.environment from newest w order by w.received_at desc limit %(looked)s) n
)
select count(*) filter (where not t.public), count(*) filter (where t.public), exists (
    select from analytics_events b
    where b.project_id = %(project_id)s and b.event = %(event)s and not b.public and b.received_at > %(before)s
        and b.received_at <= %(since)s
    union all
    select from erased_records b
    where b.project_id = %(project_id)s and b.event = %(event)s and not b.public and b.received_at > %(before)s
        and b.received_at <= %(since)s), (select u.looked from usual u), (select u.named from usual u)
from (
    select e.public,
        \include named_environment
        as environment
    from analytics_events e
    where e.project_id = %(project_id)s and e.event = %(event)s
        and e.received_at > %(since)s and e.received_at <= %(until)s
    union all
    select r.public, r.environment from erased_records r
    where r.project_id = %(project_id)s and r.event = %(event)s
        and r.received_at > %(since)s and r.received_at <= %(until)s) t
where t.environment = %(environment)s
    or t.environment is null and (select 2 * u.named < greatest(u.looked, 1) from usual u)

-- part named_environment --
-- The environment that an event `e` names in its properties, null for none: the first text of these counts.
coalesce(nullif(e.properties ->> 'environment', ''), nullif(e.properties ->> '$environment', ''),
    nullif(e.properties ->> 'deployment.environment.name', ''), nullif(e.properties ->> 'deployment.environment', ''))

-- rows_touched --
-- How many rows a question about events or errors touches at most, as they are counted by day: of events by names where
-- these are counted. And up to which second the copy has these tables, and from which on. Null: there is none.
with days as (
    select u.day, sum(u.analytics) as events, sum(u.errors) as errors from usage_days u
    where u.project_id = %(project_id)s and u.day > %(since)s - 86400 and u.day < %(until)s
    group by u.day
), named as (
    select d.day, d.other_rows + coalesce((
        select sum(n.row_count) from event_name_days n
        where n.project_id = d.project_id and n.day = d.day and n.event = any(%(events)s::text[])), 0) as events
    from event_days d
    where d.project_id = %(project_id)s and d.day > %(since)s - 86400 and d.day < %(until)s and d.whole
        and %(events)s::text[] is not null
)
select coalesce(sum(case when %(of_events)s then least(d.events, n.events) else 0 end
        + case when %(of_errors)s then d.errors else 0 end), 0)::bigint, (
    select min(c.copied_until) from telemetry_copies c where c.telemetry = any(%(tables)s::text[])), (
    select max(c.copied_from) from telemetry_copies c where c.telemetry = any(%(tables)s::text[]))
from days d left join named n on n.day = d.day

-- newest_event --
-- When the newest event of a project was received, and whether anybody has more than one name.
select (select received_at from analytics_events where project_id = %(project_id)s order by received_at desc limit 1),
\include anybody_linked

-- part anybody_linked --
-- Whether anybody in the project has more than one name.
exists (select from person_names n where n.project_id = %(project_id)s)

-- newest_error --
-- When the newest error of a project was received, and whether anybody has more than one name. Each error has a case,
-- and cases are found by the hour of their last one.
select max(c.last_seen_at),
\include anybody_linked
from case_stats c
where c.project_id = %(project_id)s and c.last_seen_hour = (
    select last_seen_hour from case_stats where project_id = %(project_id)s order by last_seen_hour desc limit 1)

-- newest_deploy --
-- When the newest deploy of a project was recorded. Nobody is counted in deploys.
select (select recorded_at from deploys where project_id = %(project_id)s order by recorded_at desc limit 1), false

-- funnel --
-- How many people reached each step of a funnel; null when there are too many rows. What is kept is known before
-- anything is counted: the evening's purge may take what the morning's count has seen.
select (select service_today()),
    case when %(since)s >= (select service_today()) - %(kept)s then ordered_funnel(project => %(project_id)s,
        steps => %(events)s::text[], since => %(since)s, until => %(until)s, most_rows => %(most_rows)s) end

-- recurrences --
-- Of which releases, or none, errors of a case came in a period and in an environment, and how many of each: among so
-- many of them as `looked` says, without those of the releases in `others`, also of people who were erased. Those by
-- the public DSN count where they are accepted. What the connected provider counted stands apart, and the greater of
-- the two is told: of the minute in which the period begins one error, if its last one came in it. What an import
-- brought does not count.
select e.release, greatest(sum(e.own), sum(e.provided))::bigint from (
    (select l.release, 1 as own, 0 as provided from log_events l
    where l.project_id = %(project_id)s and l.case_id = %(case_id)s
        and l.received_at >= %(since)s and l.received_at < %(until)s
        and l.level in ('error', 'fatal') and l.environment = %(environment)s
        and (l.release is null or l.release <> all (%(others)s::text[]))
        and not starts_with(coalesce(l.marker_hash, ''), 'import:')
        and (not l.public or accepts_public(project => %(project_id)s))
    limit %(looked)s)
    union all
    (select r.release, 1, 0 from erased_records r
    where r.project_id = %(project_id)s and r.case_id = %(case_id)s
        and r.received_at >= %(since)s and r.received_at < %(until)s
        and r.level in ('error', 'fatal') and r.environment = %(environment)s
        and (r.release is null or r.release <> all (%(others)s::text[]))
        and (not r.public or accepts_public(project => %(project_id)s))
    limit %(looked)s)
    union all
    (select nullif(c.release, ''), 0, sum(case when c.minute >= %(since)s then c.errors else 1 end)
    from provider_counts c
    where c.project_id = %(project_id)s and c.case_id = %(case_id)s
        and c.last_at >= %(since)s and c.minute >= %(since)s - 60 and c.minute < %(until)s
        and c.environment = %(environment)s and (c.release = '' or c.release <> all (%(others)s::text[]))
    group by c.release
    limit %(looked)s)
    limit %(looked)s) e
group by e.release

-- later_versions --
-- What was deployed to an environment after a deploy, by version.
select distinct d.version from deploys d
where d.project_id = %(project_id)s and d.environment = %(environment)s
    and (d.recorded_at, d.id) > (%(deployed_at)s, %(deploy_id)s)
limit %(looked)s

-- newest_rows --
-- Of each of some events how many of the newest rows there are, when the last came in, and the properties that these
-- have: what only older rows had is not in place any more. And once, without a name, when the newest event of any name
-- came in.
select m.event, count(distinct n.id), max(n.received_at),
    coalesce(array_agg(distinct k.name) filter (where k.name is not null), '{}')
from unnest(%(events)s::text[]) m(event)
left join lateral (
    select a.properties, a.received_at, a.id from analytics_events a
    where a.project_id = %(project_id)s and a.event = m.event
    order by a.received_at desc limit %(newest)s
) n on true
left join lateral jsonb_object_keys(n.properties) k(name) on true
group by m.event
union all
select null, 0, (
    select a.received_at from analytics_events a
    where a.project_id = %(project_id)s order by a.received_at desc limit 1
), '{}'

-- shown_failure --
-- When the newest error of a project came in, and among its newest records how many errors have the marker of a failure
-- (null: none is looked for), and when the last of those came in. Each error has a case, also once its row is gone.
select (
    select max(c.last_seen_at) from case_stats c
    where c.project_id = %(project_id)s and c.last_seen_hour = (
        select s.last_seen_hour from case_stats s
        where s.project_id = %(project_id)s order by s.last_seen_hour desc limit 1)
), f.shown, f.last_at
from (
    select count(*) as shown, max(r.received_at) as last_at
    from (
        select l.received_at, l.case_id, l.message, l.tags, l.extra from log_events l
        where l.project_id = %(project_id)s and %(failure)s::text is not null
        order by l.received_at desc limit %(most)s
    ) r
    where r.case_id is not null and (r.tags ->> %(key)s = %(failure)s or r.extra ->> %(key)s = %(failure)s
        or strpos(r.message, %(failure)s) > 0)
) f

-- name_trends --
-- The rows of some names by UTC day since one, from the counters.
select n.event, n.day, n.row_count
from event_name_days n
where n.project_id = %(project_id)s and n.day >= %(since)s and n.event = any(%(names)s::text[])

-- event_names --
-- The names of a project's events since a time, most rows first, with the people who had them; and since when rows are
-- counted, and whether any have a name that is not counted. People are counted from rows, of the names with the fewest
-- first, until these are too many: null beyond.
with
\include names_counted
, found as (
    select e.event, count(*) as row_count, min(e.received_at) as first_at, max(e.received_at) as last_at
    from analytics_events e
    where e.project_id = %(project_id)s and e.received_at >= %(since)s
        and e.received_at >= (select c.since from counted c) and e.received_at < (select c.summed from counted c)
    group by e.event
    union all
    select n.event, sum(n.row_count), min(n.first_at), max(n.last_at)
    from event_name_days n
    where n.project_id = %(project_id)s and n.day >= (select c.summed from counted c)
    group by n.event
), names as (
    select f.event, sum(f.row_count)::bigint as row_count, min(f.first_at) as first_at, max(f.last_at) as last_at
    from found f group by f.event order by row_count desc, f.event limit %(limit)s
), ordered as (
    select n.*, sum(n.row_count) over (order by n.row_count, n.event) as looked from names n
)
select c.since, exists (
        select from event_days d
        where d.project_id = %(project_id)s and d.day >= c.summed and d.other_rows > 0
    ), o.event, o.row_count, case when o.looked <= %(most_of_people)s then (
        select count(*) from (
            select distinct
            \include analytics/blueprints.person
            from analytics_events e
            \include analytics/blueprints.names
            where e.project_id = %(project_id)s and e.event = o.event and e.received_at >= %(since)s
                and e.received_at >= c.since) p
    ) end, o.first_at, o.last_at
from counted c left join ordered o on true
order by o.row_count desc, o.event

-- part names_counted --
-- From `summed` on, what is counted by name tells everything: the first midnight in the window after which each day was
-- counted from its beginning. What was received before is counted from rows, the newest `most` of them, which are those
-- from `since` on.
days as (
    select coalesce(max(m.day) + 86400, %(midnight)s) as summed
    from generate_series(%(midnight)s::bigint, (select service_today()), 86400) m(day)
    left join event_days d on d.project_id = %(project_id)s and d.day = m.day
    where not coalesce(d.whole, false) and exists (
        select from analytics_events e
        where e.project_id = %(project_id)s and e.received_at >= m.day and e.received_at < m.day + 86400)
), counted as (
    select d.summed, coalesce((
        select e.received_at + 1 from analytics_events e
        where e.project_id = %(project_id)s and e.received_at >= %(since)s and e.received_at < d.summed
        order by e.received_at desc, e.id desc offset %(most)s limit 1), %(since)s) as since
    from days d
)

-- linked --
-- Whether anybody in the project has more than one name.
select
\include anybody_linked

-- event_keys --
-- The keys of the properties of a project's events since a time (of all, or of some names), most rows first, with the
-- JSON types of their values as bits; and since when rows are counted, and whether any have a key that is not counted.
with
\include names_counted
, found as (
    select e.event, k.key, count(*) as row_count, bit_or(case jsonb_typeof(k.value) when 'array' then 1
        when 'boolean' then 2 when 'null' then 4 when 'number' then 8 when 'object' then 16 else 32 end) as types
    from analytics_events e cross join lateral jsonb_each(e.properties) k
    where e.project_id = %(project_id)s and e.received_at >= %(since)s
        and e.received_at >= (select c.since from counted c) and e.received_at < (select c.summed from counted c)
        and (%(events)s::text[] is null or e.event = any(%(events)s::text[])) and length(k.key) <= %(longest)s
    group by e.event, k.key
    union all
    select k.event, k.key, sum(k.row_count), bit_or(k.types)
    from event_key_days k
    where k.project_id = %(project_id)s and k.day >= (select c.summed from counted c)
        and (%(events)s::text[] is null or k.event = any(%(events)s::text[]))
    group by k.event, k.key
), keys as (
    select f.event, f.key, sum(f.row_count)::bigint as row_count, bit_or(f.types) as types
    from found f where f.key <> %(hidden)s
    group by f.event, f.key order by row_count desc, f.event, f.key limit %(limit)s
)
select c.since, exists (
        select from event_days d
        where d.project_id = %(project_id)s and d.day >= c.summed and d.other_values > 0
    ), k.event, k.key, k.row_count, k.types
from counted c left join keys k on true
order by k.row_count desc, k.event, k.key

-- keep_receipt --
-- Keep the receipt of an answer of a provider, and forget those of before but for the one that a plan names.
with forgotten as (
    delete from provider_receipts r
    where r.project_id = %(project_id)s and r.answered_at < (select service_seconds()) - %(kept_seconds)s
        and not exists (select from onboarding o where o.project_id = r.project_id
            and o.plan #>> '{historical_evidence,query_receipt_sha256}' = r.sha256)
        and not exists (select from signal_maps m where m.project_id = r.project_id
            and m.plan #>> '{historical_evidence,query_receipt_sha256}' = r.sha256)
)
insert into provider_receipts (project_id, sha256, provider_project_id, since, until, answered_at)
select p.id, %(sha256)s, %(provider_project_id)s, %(since)s, %(until)s, (select service_seconds())
from projects p
where p.project_id = %(project_id)s and p.id = %(project_id)s and p.status = 'active'
on conflict (project_id, sha256) do update
set provider_project_id = excluded.provider_project_id, since = excluded.since, until = excluded.until,
    answered_at = excluded.answered_at
where provider_receipts.answered_at < excluded.answered_at - 3600
