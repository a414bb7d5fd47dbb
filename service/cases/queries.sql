-- around --
-- Who is around some cases before they are merged or split: those merged into the first, and the leases of all.
select
    (select json_agg(m.id order by m.id) from cases m
        where m.project_id = %(project_id)s and m.merged_into = %(case_id)s)::text,
    (select json_agg(row_to_json(l)) from leases l
        where l.project_id = %(project_id)s and l.case_id = any(%(case_ids)s))::text

-- attention --
-- Cases of a status after a place, oldest first, with their fingerprints.
select c.opened_at, c.id, c.fingerprint
from cases c
where c.project_id = %(project_id)s and c.status = %(status)s and (c.opened_at, c.id) > (%(at)s, %(id)s)
order by c.opened_at, c.id
limit %(most)s

-- record --
-- A case with its counters, its lease and the rules, what was merged into it and what people wrote about it; and beside
-- it a column of whoever asks, over case `c` and its counters `s`.
select json_build_object(
    'now', (select service_seconds()), 'today', (select service_today()),
    'case', row_to_json(c), 'stats', row_to_json(s), 'lease', row_to_json(l), 'claim', row_to_json(k),
    'rules', row_to_json(r),
    'merged', coalesce((
        select json_agg(
            json_build_object('case_id', m.id, 'fingerprint', m.fingerprint, 'event_count', t.event_count)
            order by m.id)
        from cases m join case_stats t using (project_id, id)
        where m.project_id = c.project_id and m.merged_into = c.id), '[]'),
    'comments', coalesce((
        select json_agg(row_to_json(n) order by n.commented_at desc, n.id desc)
        from (
            select * from case_comments where project_id = c.project_id and case_id = c.id
            order by commented_at desc, id desc limit 50) n), '[]'),
    'runs', coalesce((
        select json_agg(row_to_json(n) order by n.recorded_at desc, n.id desc)
        from (
            select * from case_runs where project_id = c.project_id and case_id = c.id
            order by recorded_at desc, id desc limit 50) n), '[]'),
    'people',
    \include cases/listing.people
    , 'absorbed', row_to_json(g))::text, {beside}
from cases c
join case_stats s using (project_id, id)
\include cases/listing.merged
left join projects p on p.project_id = c.project_id and p.status = 'active'
left join leases l on l.project_id = p.project_id and l.case_id = c.id
left join claims k on k.project_id = l.project_id and k.id = l.claim_id
left join suppressions r on r.project_id = c.project_id and r.id = %(suppressions_id)s
where c.project_id = %(project_id)s and c.id = %(case_id)s

-- trends --
-- How many errors of some cases of a list, and of those merged into them, happened on each day since a time: of each
-- the newest received alone. None was received before it happened. Where the connected provider counted more on a day,
-- its number is told. It is planned for its values: only those days are opened.
with ids as (
    select o.id as shown, o.id from unnest(%(case_ids)s::text[]) as o(id)
    union all
    select m.merged_into, m.id from cases m
    where m.project_id = %(project_id)s and m.merged_into = any(%(case_ids)s::text[])
)
select i.shown, x.day, greatest(sum(x.events), sum(x.provided))::bigint
from ids i
cross join lateral (
    select e.happened - mod(e.happened, 86400) as day, count(*) as events, 0 as provided
    from (
        select coalesce(l.occurred_at, l.received_at) as happened from log_events l
        where l.project_id = %(project_id)s and l.case_id = i.id and l.received_at >= %(since)s
        order by l.received_at desc, l.id desc limit %(most)s) e
    where e.happened >= %(since)s
    group by 1
    union all
    select p.minute - mod(p.minute, 86400), 0, sum(p.errors)
    from provider_counts p
    where p.project_id = %(project_id)s and p.case_id = i.id and p.minute >= %(since)s
    group by 1) x
group by 1, 2

-- evidence --
-- What the errors say that are still kept of a case and of those merged into it: the latest one, why the case's own
-- latest was put here, how many happened a day. Where the connected provider counted more on a day, its number is
-- told. Of partitions by the day only those are planned, locked and opened whose days are named: in a statement that is
-- planned for its values, and without any function of time.
select json_build_object(
    'latest', (
        select
        \include latest
        from unnest(%(case_ids)s::text[]) as o(id)
        cross join lateral (
            select * from log_events e
            where e.project_id = %(project_id)s and e.case_id = o.id and e.received_at = %(last)s
            order by e.id desc limit 1) e
        order by e.id desc limit 1),
    'grouped_by', (
        select e.grouped_by from log_events e
        where e.project_id = %(project_id)s and e.case_id = %(case_id)s and e.received_at = %(own_last)s
        order by e.id desc limit 1),
    'days', coalesce((
        select json_object_agg(x.day, x.events)
        from (
            select y.day, greatest(sum(y.events), sum(y.provided)) as events
            from (
                select e.happened - mod(e.happened, 86400) as day, count(*) as events, 0 as provided
                from unnest(%(case_ids)s::text[]) as o(id)
                cross join lateral (
                    select coalesce(e.occurred_at, e.received_at) as happened from log_events e
                    where e.project_id = %(project_id)s and e.case_id = o.id and e.received_at >= %(since)s
                        and e.received_at <= %(last)s
                    order by e.received_at desc, e.id desc limit 5000) e
                group by 1
                union all
                select p.minute - mod(p.minute, 86400), 0, sum(p.errors)
                from provider_counts p
                where p.project_id = %(project_id)s and p.case_id = any(%(case_ids)s::text[])
                    and p.minute >= %(since)s
                group by 1) y
            group by 1) x), '{}'))::text

-- part latest --
-- The latest error `e` of a case.
json_build_object('id', e.id, 'message', e.message, 'level', e.level, 'environment', e.environment,
    'release', e.release, 'user_id', e.user_id, 'tags', e.tags, 'received_at', e.received_at,
    'occurred_at', coalesce(e.occurred_at, e.received_at), 'adjusted', coalesce(e.adjusted, '[]'),
    'dsn', case when starts_with(coalesce(e.marker_hash, ''), 'import:') then 'import'
        when e.public then 'public' else 'server' end)

-- newest_kept --
-- When the newest error that is left of some cases, until a time, was received, and that of one of them.
select max(e.received_at), max(e.received_at) filter (where o.id = %(case_id)s)
from unnest(%(case_ids)s::text[]) as o(id)
cross join lateral (
    select l.received_at from log_events l
    where l.project_id = %(project_id)s and l.case_id = o.id and l.received_at <= %(last)s
    order by l.received_at desc limit 1) e

-- evidence_of_today --
-- What the errors of a case say that is new today, and alone: one partition tells all, also of what happened on a day
-- before. Named, it needs no plan for each time: that took six times as long as to run it.
select json_build_object('latest', e.latest, 'grouped_by', e.grouped_by, 'days', coalesce((
    select json_object_agg(o.day, o.events)
    from (
        select e.happened - mod(e.happened, 86400) as day, count(*) as events
        from (
            select coalesce(e.occurred_at, e.received_at) as happened from {table} e
            where e.project_id = %(project_id)s and e.case_id = %(case_id)s and e.received_at <= %(last)s
            order by e.received_at desc, e.id desc limit 5000) e
        group by 1) o), '{}'))::text
from (values (true)) always
left join lateral (
    select
    \include latest
    as latest, e.grouped_by
    from {table} e
    where e.project_id = %(project_id)s and e.case_id = %(case_id)s and e.received_at = %(last)s
    order by e.id desc limit 1) e on true

-- common --
-- What the newest errors of some cases, so many, have in common: how many were counted and since when, and the names of
-- most errors with their most frequent values. It is planned for its values: only the days between are opened.
with newest as materialized (
    select e.received_at, e.id, e.environment, e.release, e.tags from unnest(%(case_ids)s::text[]) as o(id)
    cross join lateral (
        select * from log_events e
        where e.project_id = %(project_id)s and e.case_id = o.id
            and e.received_at >= %(low)s and e.received_at <= %(high)s
        order by e.received_at desc, e.id desc limit %(most)s) e
    order by e.received_at desc, e.id desc limit %(most)s
), told as (
    select 'environment' as name, n.environment as value from newest n
    union all
    select 'release', n.release from newest n where n.release <> ''
    union all
    select t.key, t.value from newest n cross join lateral jsonb_each_text(n.tags) t
    where t.key not in ('environment', 'release')
), counted as (
    select t.name, t.value, count(*) as errors from told t where t.value is not null group by 1, 2
), ranked as (
    select c.*, row_number() over (partition by c.name order by c.errors desc, c.value) as place,
        sum(c.errors) over (partition by c.name)::bigint as named, count(*) over (partition by c.name) as different
    from counted c
), shown as (
    select r.*, dense_rank() over (order by r.named desc, r.name) as name_place from ranked r
)
select (select count(*) from newest), (select min(n.received_at) from newest n), s.name, s.named, s.different, s.value,
    s.errors
from (select 1) one
left join (
    select * from shown s where s.place <= %(values)s and s.name_place <= %(names)s
) s on true
order by s.name_place, s.place

-- family --
-- A case and those merged into it: when their errors came, whether some did not come from an onboarding proof or an
-- import, and whether an import opened it.
select t.id, t.first_seen_at, t.last_seen_at, t.unmarked, coalesce(i.imported, false)
from (
    select c.id, c.imported from cases c where c.project_id = %(project_id)s and c.id = %(case_id)s
    union all
    select m.id, m.imported from cases m where m.project_id = %(project_id)s and m.merged_into = %(case_id)s) i
join case_stats t on t.project_id = %(project_id)s and t.id = i.id
order by t.id <> %(case_id)s

-- events --
-- Errors of some cases after a place, newest first, received at `low` or later. It is planned for its values: only the
-- days between are opened.
select
\include event_columns
from unnest(%(case_ids)s::text[]) as o(id)
cross join lateral (
    select * from log_events e
    where e.project_id = %(project_id)s and e.case_id = o.id and e.received_at >= %(low)s and e.received_at <= %(at)s
        and (e.received_at, e.id) < (%(at)s, %(id)s)
    order by e.received_at desc, e.id desc limit %(limit)s) e
order by e.received_at desc, e.id desc
limit %(limit)s

-- part event_columns --
-- What is shown of error `e`, as it is stored.
e.received_at, e.id, e.level, e.message, e.environment, e.release, e.user_data::text, e.tags::text, e.extra::text,
    e.packed, e.grouped_by, e.adjusted::text, e.public, coalesce(e.occurred_at, e.received_at),
    starts_with(coalesce(e.marker_hash, ''), 'import:')

-- event --
-- One error by its key. It is planned for its values: only its day is opened.
select
\include event_columns
from log_events e
where e.project_id = %(project_id)s and e.received_at = %(received_at)s and e.id = %(id)s

-- event_time --
-- When an error of some cases was received. Of each case so many are looked at, newest first: no index knows an error
-- by its id alone. (How many is asked of a statement of its own, which the planner does not know the answer of. So it
-- merges the days, in the order of their indexes. It would sort all errors of a case that has more than others.)
select e.received_at
from unnest(%(case_ids)s::text[]) as o(id)
cross join lateral (
    select e.received_at, e.id from log_events e
    where e.project_id = %(project_id)s and e.case_id = o.id and e.received_at >= %(low)s and e.received_at <= %(high)s
    order by e.received_at desc, e.id desc limit (select %(most)s::bigint)) e
where e.id = %(id)s
limit 1

-- events_beside --
-- The errors of some cases next to a place: the ids of the newer and of the older one, received within two times. It is
-- planned for its values: only the days between are opened.
select
    (select e.id from unnest(%(case_ids)s::text[]) as o(id)
    cross join lateral (
        select l.received_at, l.id from log_events l
        where l.project_id = %(project_id)s and l.case_id = o.id
            and l.received_at >= %(at)s and l.received_at <= %(high)s and (l.received_at, l.id) > (%(at)s, %(id)s)
        order by l.received_at, l.id limit 1) e
    order by e.received_at, e.id limit 1),
    (select e.id from unnest(%(case_ids)s::text[]) as o(id)
    cross join lateral (
        select l.received_at, l.id from log_events l
        where l.project_id = %(project_id)s and l.case_id = o.id
            and l.received_at <= %(at)s and l.received_at >= %(low)s and (l.received_at, l.id) < (%(at)s, %(id)s)
        order by l.received_at desc, l.id desc limit 1) e
    order by e.received_at desc, e.id desc limit 1)

-- feedback --
-- A page of what people wrote, newest first: all of it, about the errors of some cases, or without a case. It is
-- planned for its values.
select
\include written
from feedback_reports f
where f.project_id = %(project_id)s and (f.received_at, f.id) < (%(at)s, %(id)s)
    and (%(case_ids)s::text[] is null or f.case_id = any(%(case_ids)s::text[]))
    and (not %(without_case)s::boolean or f.case_id is null)
order by f.received_at desc, f.id desc
limit %(limit)s

-- part written --
-- What is shown of report `f`.
f.id, f.received_at, f.message, f.name, f.email, f.url, f.user_id, f.release, f.environment, f.event_key, f.error_id,
    f.case_id, f.adjusted, f.public

-- feedback_of_event --
-- What people wrote about an error, by the id that its SDK gave it: the newest.
select
\include written
from feedback_reports f
where f.project_id = %(project_id)s and f.event_key = %(event_key)s
order by f.received_at desc, f.id desc
limit %(most)s

-- logs --
-- Records below `error` after a place, newest first, among so many of any level. Each row tells how many were looked
-- at, the last of them, and how many up to this record: there is one row also without a record. It is planned for its
-- values: only the days between are opened.
select l.looked, l.at, l.id, e.looked,
\include event_columns
from (
    select count(*) as looked, min(k.received_at) as at, (array_agg(k.id order by k.received_at, k.id))[1] as id
    from (
        select e.received_at, e.id from log_events e where
        \include received
    ) k) l
left join lateral (
    select e.* from (
        select e.*, row_number() over (order by e.received_at desc, e.id desc) as looked from (
            select * from log_events e where
            \include received
        ) e) e
    where
    \include logs_matching
) e on true
order by e.received_at desc, e.id desc

-- part received --
-- Records `e` of a project after a place, newest first, received at `low` or later: so many. `high` is the end of the
-- day of the place. It tells which days to open; with the place in its stead, the planner would count that one twice.
e.project_id = %(project_id)s and e.received_at >= %(low)s and e.received_at <= %(high)s
    and (e.received_at, e.id) < (%(at)s, %(id)s)
order by e.received_at desc, e.id desc limit %(looked)s

-- part logs_matching --
-- Those of the records `e` that a list below `error` shows. A trace may stand in what is packed: such are candidates.
e.case_id is null
    and (%(level)s::text is null or e.level = %(level)s)
    and (%(release)s::text is null or e.release = %(release)s)
    and (%(text)s::text is null or strpos(lower(e.message), lower(%(text)s)) > 0)
    and (%(trace)s::text is null or e.packed is not null or strpos(e.extra::text || e.tags::text, %(trace)s) > 0)
    and (%(since)s::bigint is null or coalesce(e.occurred_at, e.received_at) >= %(since)s)
    and (%(until)s::bigint is null or coalesce(e.occurred_at, e.received_at) <= %(until)s)
order by e.received_at desc, e.id desc limit %(limit)s

-- logs_of_user --
-- Records below `error` that name a person, as logs.sql finds those of all.
select l.looked, l.at, l.id, e.looked,
\include event_columns
from (
    select count(*) as looked, min(k.received_at) as at, (array_agg(k.id order by k.received_at, k.id))[1] as id
    from (
        select e.received_at, e.id from log_events e where
        \include received_of_user
    ) k) l
left join lateral (
    select e.* from (
        select e.*, row_number() over (order by e.received_at desc, e.id desc) as looked from (
            select * from log_events e where
            \include received_of_user
        ) e) e
    where
    \include logs_matching
) e on true
order by e.received_at desc, e.id desc

-- part received_of_user --
-- The same of the records that name a person. Written so that their own index alone has this order: how many records a
-- person has no planner can tell, and by the key it would look through those of everybody.
e.user_id is not null and e.received_at >= %(low)s and e.received_at <= %(high)s
    and (e.project_id, e.user_id, e.received_at) >= (%(project_id)s, %(user)s, %(low)s)
    and (e.project_id, e.user_id, e.received_at) <= (%(project_id)s, %(user)s, %(at)s)
    and (e.received_at, e.id) < (%(at)s, %(id)s)
order by e.project_id desc, e.user_id desc, e.received_at desc, e.id desc limit %(looked)s

-- compare --
-- Compare the fingerprints of a stretch of cases with a pattern: how many there are, those that match with what they
-- have counted, and the last of the stretch. Counters are looked up by their keys, and only of cases that match: the
-- planner would read those of the whole project.
with piece as materialized (
    select c.id, c.opened_at, c.fingerprint like %(like)s as matches, c.revision = 1 as own, c.merged_into
    from cases c
    where c.project_id = %(project_id)s and (c.opened_at, c.id) < (%(at)s, %(id)s)
    order by c.opened_at desc, c.id desc limit %(most)s
), last as (
    select q.id from piece q order by q.opened_at, q.id limit 1
)
select (select count(*) from piece), p.opened_at, p.id, p.matches, p.own, p.merged_into, s.event_count,
    s.first_seen_at, s.last_seen_at, s.sample is not null,
    (select t.event_count from case_stats t where t.project_id = %(project_id)s and t.id = p.merged_into)
from piece p
left join lateral (
    select t.* from case_stats t where p.matches and t.project_id = %(project_id)s and t.id = p.id offset 0) s on true
where p.matches or p.id = (select id from last)
order by p.opened_at desc, p.id desc

-- count_matching --
-- How many rows of a stretch of time there are of cases with errors of their own alone, how many of the others, and how
-- many of all that a pattern matches fall into each of three windows. Each case is looked up in the index of cases: a
-- planner that took them all together would read what all others had.
select count(*) filter (where e.own), count(*) filter (where not e.own),
    count(*) filter (where e.wanted and e.by_rows <= %(first)s and e.received_at >= %(first)s),
    count(*) filter (where e.wanted and e.by_rows <= %(second)s and e.received_at >= %(second)s),
    count(*) filter (where e.wanted and e.by_rows <= %(third)s and e.received_at >= %(third)s)
from (
    (select l.received_at, o.by_rows, true as own, true as wanted
    from unnest(%(own)s::text[], %(own_since)s::bigint[]) as o(id, by_rows)
    cross join lateral (
        select e.received_at from log_events e
        where e.project_id = %(project_id)s and e.case_id = o.id and e.received_at >= o.by_rows
            and e.received_at >= %(low)s and e.received_at < %(edge)s offset 0) l
    limit %(most)s)
    union all
    (select l.received_at, 0, false, l.fingerprint like %(like)s
    from unnest(%(mixed)s::text[]) as o(id)
    cross join lateral (
        select e.received_at, e.fingerprint from log_events e
        where e.project_id = %(project_id)s and e.case_id = o.id
            and e.received_at >= %(low)s and e.received_at < %(edge)s offset 0) l
    limit %(most_mixed)s)
) e

-- kept_from --
-- When the oldest row that is left was received.
select min(e.received_at) from log_events e where e.project_id = %(project_id)s

-- notes_of_case --
-- How many comments and agents' runs a case has; no more are counted than it takes.
select
    (select count(*) from (
        select from case_comments n where n.project_id = %(project_id)s and n.case_id = %(case_id)s
        limit %(most_comments)s) written),
    (select count(*) from (
        select from case_runs n where n.project_id = %(project_id)s and n.case_id = %(case_id)s
        limit %(most_agent_runs)s) recorded)

-- count_known --
-- How many of some cases a project has.
select count(*) from cases c where c.project_id = %(project_id)s and c.id = any(%(case_ids)s::text[])
