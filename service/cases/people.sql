-- people_of_case --
-- Who met the errors of a case and of those merged into it, most errors first, each under the name that the person is
-- called by; with how many cases these are, and how many names of the one with the most were looked at.
with ids as (
    select c.id from cases c where c.project_id = %(project_id)s and c.id = %(case_id)s
    union all
    select m.id from cases m where m.project_id = %(project_id)s and m.merged_into = %(case_id)s
), seen as (
    select u.* from ids i cross join lateral (
        select * from case_users u where u.project_id = %(project_id)s and u.case_id = i.id
        order by u.user_id limit %(most)s) u
), people as (
    select coalesce(n.person, s.user_id) as user_id,
        (array_agg(s.user_email order by s.last_seen_at desc) filter (where s.user_email is not null))[1],
        sum(s.error_count)::bigint as errors, count(distinct s.case_id), max(s.last_seen_at)
    from seen s left join person_names n on n.project_id = s.project_id and n.name = s.user_id
    group by 1
)
select (select count(*) from ids), (select max(n) from (select count(*) as n from seen group by case_id) x), p.*
from (select 1) one left join (select * from people order by errors desc, user_id limit %(shown)s) p on true

-- people_of_project --
-- Who met errors of a project that happened since a time, most errors first, each under the name that the person is
-- called by; with how many errors and people there are, and when the oldest row looked at was received, where as many
-- were looked at as may be. What happened after that was received after that, and was looked at. Kinds and addresses
-- are told of the people shown alone: to tell those of all costs twice as much as everything else.
with looked as materialized (
    select coalesce(n.person, l.user_id) as user_id, l.user_data, l.fingerprint, l.received_at, l.happened, l.case_id
    from (
        select l.project_id, l.user_id, l.user_data, l.fingerprint, l.received_at, l.case_id,
            coalesce(l.occurred_at, l.received_at) as happened
        from log_events l
        where l.project_id = %(project_id)s and l.received_at >= %(since)s
        order by l.received_at desc, l.id desc limit %(most)s
    ) l
    left join person_names n on n.project_id = l.project_id and n.name = l.user_id
), bound as (
    select min(received_at) as oldest from looked having count(*) = %(most)s
), counted as (
    select * from looked
    where case_id is not null and happened >= greatest(%(since)s, (select oldest from bound))
), people as (
    select e.user_id, count(*) as errors, max(e.received_at) as last_at
    from counted e where e.user_id is not null group by e.user_id
), shown as (
    select * from people order by errors desc, user_id limit %(shown)s
), told as (
    select e.user_id, count(distinct e.fingerprint) as kinds,
        (array_agg(e.user_data ->> 'email' order by e.received_at desc)
            filter (where jsonb_typeof(e.user_data -> 'email') = 'string'))[1] as email
    from counted e join shown s on s.user_id = e.user_id group by e.user_id
)
select (select count(*) from counted), (select count(*) from people), (select oldest from bound),
    s.user_id, t.email, s.errors, t.kinds, s.last_at
from (select 1) one left join (shown s join told t on t.user_id = s.user_id) on true
order by s.errors desc, s.user_id

-- names_of_person --
-- The names of whoever has a name, that which the person is called by first; and what a product told of the person: its
-- properties, whether it is identified, and how many links were refused. Nothing of somebody who was never told of.
select p.id, coalesce((
        select array_agg(n.name order by n.name <> p.id, n.name) from person_names n
        where n.project_id = %(project_id)s and n.person = p.id), array[p.id]),
    t.properties, coalesce(t.identified, false), coalesce(t.refused, 0)
from (
    select coalesce((
        select n.person from person_names n
        where n.project_id = %(project_id)s and n.name = %(person)s), %(person)s) as id
) p
left join telemetry_people t on t.project_id = %(project_id)s and t.id = p.id

-- person --
-- What is known of a person by some names: how many events of each kind up to a bound, the first and the last, when the
-- first and the last happened of as many as are looked at from either end, and a mail address. Each name is looked up
-- by itself, and those together are bounded.
select x.analytics, y.logs, y.errors, least(x.first_at, y.first_at), greatest(x.last_at, y.last_at),
    least(x.first_occurred_at, y.first_occurred_at), greatest(x.last_occurred_at, y.last_occurred_at), (
    select e.email
    from unnest(%(names)s::text[]) as w(name)
    cross join lateral (
        select l.user_data ->> 'email' as email, l.received_at
        from (
            select l.user_data, l.received_at from log_events l
            where l.project_id = %(project_id)s and l.user_id = w.name
            order by l.received_at desc limit %(recent)s) l
        where jsonb_typeof(l.user_data -> 'email') = 'string'
        order by l.received_at desc limit 1) e
    order by e.received_at desc limit 1)
from (
    select (
        select count(*) from (
            select from unnest(%(names)s::text[]) as w(name)
            cross join lateral (
                select from analytics_events a where a.project_id = %(project_id)s and a.distinct_id = w.name
                limit %(most)s) a
            limit %(most)s) c) as analytics, min(a.first_at) as first_at, max(a.last_at) as last_at,
        min(a.first_occurred_at) as first_occurred_at, max(a.last_occurred_at) as last_occurred_at
    from unnest(%(names)s::text[]) as w(name)
    cross join lateral (
        select
            (select min(a.received_at) from analytics_events a
                where a.project_id = %(project_id)s and a.distinct_id = w.name) as first_at,
            (select max(a.received_at) from analytics_events a
                where a.project_id = %(project_id)s and a.distinct_id = w.name) as last_at,
            (select min(o.happened) from (
                select coalesce(a.occurred_at, a.received_at) as happened from analytics_events a
                where a.project_id = %(project_id)s and a.distinct_id = w.name
                order by a.received_at limit %(looked)s) o) as first_occurred_at,
            (select max(o.happened) from (
                select coalesce(a.occurred_at, a.received_at) as happened from analytics_events a
                where a.project_id = %(project_id)s and a.distinct_id = w.name
                order by a.received_at desc limit %(looked)s) o) as last_occurred_at) a) x
cross join (
    select c.logs, c.errors, l.first_at, l.last_at, l.first_occurred_at, l.last_occurred_at
    from (
        select count(*) as logs, count(*) filter (where l.case_id is not null) as errors from (
            select l.case_id from unnest(%(names)s::text[]) as w(name)
            cross join lateral (
                select l.case_id, l.received_at from log_events l
                where l.project_id = %(project_id)s and l.user_id = w.name
                order by l.received_at desc limit %(most)s) l
            limit %(most)s) l) c
    cross join (
        select min(l.first_at) as first_at, max(l.last_at) as last_at,
            min(l.first_occurred_at) as first_occurred_at, max(l.last_occurred_at) as last_occurred_at
        from unnest(%(names)s::text[]) as w(name)
        cross join lateral (
            select
                (select min(l.received_at) from log_events l
                    where l.project_id = %(project_id)s and l.user_id = w.name) as first_at,
                (select max(l.received_at) from log_events l
                    where l.project_id = %(project_id)s and l.user_id = w.name) as last_at,
                (select min(o.happened) from (
                    select coalesce(l.occurred_at, l.received_at) as happened from log_events l
                    where l.project_id = %(project_id)s and l.user_id = w.name
                    order by l.received_at limit %(looked)s) o) as first_occurred_at,
                (select max(o.happened) from (
                    select coalesce(l.occurred_at, l.received_at) as happened from log_events l
                    where l.project_id = %(project_id)s and l.user_id = w.name
                    order by l.received_at desc limit %(looked)s) o) as last_occurred_at) l) l) y

-- recent_of_person --
-- The latest events of a person by some names, of both kinds: those received last, by when they happened. Each name is
-- looked up by itself.
select r.*
from (
    select e.*
    from unnest(%(names)s::text[]) as w(name)
    cross join lateral (
        select * from (
            (select a.id, 'analytics', a.event, null, null, null, null, a.received_at,
                coalesce(a.occurred_at, a.received_at), coalesce(a.adjusted, '[]')
            from analytics_events a
            where a.project_id = %(project_id)s and a.distinct_id = w.name
            order by a.received_at desc limit %(recent)s)
            union all
            (select l.id, 'log', l.message, l.level, l.environment, l.release, l.case_id, l.received_at,
                coalesce(l.occurred_at, l.received_at), coalesce(l.adjusted, '[]')
            from log_events l
            where l.project_id = %(project_id)s and l.user_id = w.name
            order by l.received_at desc limit %(recent)s)
        ) as u(id, kind, name, level, environment, release, case_id, received_at, occurred_at, adjusted)
    ) as e
    order by e.received_at desc, e.id desc
    limit %(recent)s) r
order by r.occurred_at desc, r.received_at desc, r.id desc
