-- deploy --
-- A deploy of a project: its version, its environment and when it was recorded.
select d.version, d.environment, d.recorded_at from deploys d
where d.project_id = %(project_id)s and d.id = %(deploy_id)s
limit %(most)s

-- case --
-- Whether a project has a case.
select true from cases c where c.project_id = %(project_id)s and c.id = %(case_id)s
limit %(most)s

-- deploy_impact --
-- How many errors of an environment came before a deploy (0) and after it (1), and how many cases they opened.
select p.place, (
    select count(*) from log_events e
    where e.project_id = %(project_id)s and e.received_at >= p.since and e.received_at < p.until
        and e.case_id is not null and e.environment = %(environment)s
        and
        \include own
), (
    select count(*) from cases c
    where c.project_id = %(project_id)s and c.opened_at >= p.since and c.opened_at < p.until and exists (
        select from log_events e
        where e.project_id = %(project_id)s and e.case_id = c.id and e.environment = %(environment)s
            and e.received_at >= p.since and e.received_at < p.until
            and
            \include own
            )
)
from (values (0, %(since)s::bigint, %(deployed_at)s::bigint), (1, %(deployed_at)s, %(until)s)) p(place, since, until)
limit %(most)s

-- part own --
-- Whether error `e` came by itself, and with no import.
not starts_with(coalesce(e.marker_hash, ''), 'import:')

-- traffic --
-- How many events of any name came in a period before a moment (0) and from it on (1).
select case when e.received_at < %(moment)s then 0 else 1 end, count(*)
from analytics_events e
where e.project_id = %(project_id)s and e.received_at >= %(since)s and e.received_at < %(until)s
group by 1
order by 1
limit %(most)s

-- event_count --
-- How often an event was received, and from how many people. To group by person first takes half the time of counting
-- the different ones, which sorts all rows.
select coalesce(sum(p.times), 0)::bigint, count(*)
from (
    select count(*) as times
    from analytics_events e
    \include names
    where e.project_id = %(project_id)s and e.event = %(event)s
        and
        \include within
    group by
    \include person
    ) p
limit %(most)s

-- part names --
-- Whose the name of event `e` is. Where `linked` is false, nobody asks, and the planner leaves it out.
left join person_names n on n.project_id = e.project_id and n.name = e.distinct_id

-- part within --
-- Whether event `e` is of a period by its own time. Then it may be received up to `reach` seconds after the period.
-- Without a reach, the time of its receipt counts.
e.received_at >= %(since)s and e.received_at < %(until)s + %(reach)s::bigint
and (%(reach)s::bigint = 0
    or coalesce(e.occurred_at, e.received_at) >= %(since)s and coalesce(e.occurred_at, e.received_at) < %(until)s)

-- part person --
-- The person of event `e` (names.sql).
case when %(linked)s then coalesce(n.person, e.distinct_id) else e.distinct_id end

-- top_events --
-- The events of a project by how often they were received.
select p.event, sum(p.times)::bigint, count(*), max(p.latest)
from (
    select e.event, count(*) as times, max(
    \include moment
    ) as latest
    from analytics_events e
    \include names
    where e.project_id = %(project_id)s and
    \include within
    group by e.event,
    \include person
    ) p
group by p.event
order by 2 desc, 1
limit %(most)s

-- part moment --
-- The time of event `e`. Without a reach, that of its receipt.
case when %(reach)s::bigint = 0 then e.received_at else coalesce(e.occurred_at, e.received_at) end

-- active_users --
-- How many people had an event on each UTC day of a period; days without any are left out.
select p.day, count(*)
from (
    select
    \include day
    as day,
    \include person
    as person
    from analytics_events e
    \include names
    where e.project_id = %(project_id)s and
    \include within
    group by 1, 2) p
group by p.day
order by p.day
limit %(most)s

-- part day --
-- The UTC day of event `e` by its own time. Without a reach, by that of its receipt.
case when %(reach)s::bigint = 0 then e.received_at - e.received_at %% 86400
    else coalesce(e.occurred_at, e.received_at) - coalesce(e.occurred_at, e.received_at) %% 86400 end

-- event_trend --
-- How often an event came on each UTC day of a period, and from how many people; days without it are left out.
select p.day, sum(p.times)::bigint, count(*)
from (
    select
    \include day
    as day, count(*) as times
    from analytics_events e
    \include names
    where e.project_id = %(project_id)s and e.event = %(event)s
        and
        \include within
    group by 1,
    \include person
    ) p
group by p.day
order by p.day
limit %(most)s

-- retention --
-- Who had an event on a day and another on a later day of the period: by both days, how many people.
with began as (
    select
    \include person
    as person,
    \include day
    as day
    from analytics_events e
    \include names
    where e.project_id = %(project_id)s and e.event = %(start_event)s
        and
        \include within
    group by 1, 2
), returned as (
    select
    \include person
    as person,
    \include day
    as day
    from analytics_events e
    \include names
    where e.project_id = %(project_id)s and e.event = %(return_event)s
        and
        \include within
    group by 1, 2
)
select b.day, r.day, count(*)
from began b join returned r on r.person = b.person and r.day > b.day
group by b.day, r.day
order by b.day, r.day
limit %(most)s

-- breakdown --
-- Which values a property of an event had in a period: rows and people by value, most rows first, and all rows of the
-- event. A value is a text of at most so many characters; null stands for a property that is not there, null, or no
-- scalar.
select p.value, sum(p.times)::bigint, count(*), (sum(sum(p.times)) over ())::bigint
from (
    select case when jsonb_typeof(e.properties -> %(property)s::text) in ('string', 'number', 'boolean')
        then left(e.properties ->> %(property)s::text, %(characters)s) end as value, count(*) as times
    from analytics_events e
    \include names
    where e.project_id = %(project_id)s and e.event = %(event)s
        and
        \include within
    group by 1,
    \include person
    ) p
group by p.value
order by 2 desc, p.value collate "C" nulls last
limit %(most)s

-- errors_by_release --
-- How many errors each release had, and how many people met them; null for errors that name no release. Errors without
-- a person are of nobody.
select p.release, sum(p.errors)::bigint, count(p.person), min(p.earliest), max(p.latest)
from (
    select e.release,
    \include person_in_error
    as person, count(*) as errors, min(
    \include moment
    ) as earliest, max(
    \include moment
    ) as latest
    from log_events e
    \include names_in_errors
    where e.project_id = %(project_id)s and e.case_id is not null
        and
        \include own
        and
        \include within
        and (%(environment)s::text is null or e.environment = %(environment)s)
    group by 1, 2) p
group by p.release
order by 2 desc, 1 nulls last
limit %(most)s

-- part person_in_error --
-- The person whom error `e` names, if it names one (names_in_errors.sql).
case when %(linked)s then coalesce(n.person, e.user_id) else e.user_id end

-- part names_in_errors --
-- Whose the name in error `e` is, as names.sql.
left join person_names n on n.project_id = e.project_id and n.name = e.user_id

-- top_errors --
-- The cases with most errors in a period, in an environment or in all: errors, people, the last one, and where they
-- come from. Errors of a case that was merged are those of the case that it was merged into. What came by DSN and what
-- the connected provider counted stand apart, and the greater is shown (G-182).
select coalesce(c.merged_into, m.case_id),
    greatest(sum(m.errors), sum(m.provided))::bigint, greatest(count(distinct m.person), max(m.people)), max(m.last),
    case when sum(m.provided) = 0 then 'local' when sum(m.errors) = 0 then 'provider_cloud' else 'both' end
from (
    select e.case_id,
    \include person_in_error
    as person, count(*) as errors, max(
    \include moment
    ) as last, 0 as provided, 0 as people
    from log_events e
    \include names_in_errors
    where e.project_id = %(project_id)s and
    \include within
        and e.case_id is not null and (%(environment)s::text is null or e.environment = %(environment)s)
        and
        \include own
    group by 1, 2
    union all
    select p.case_id, null, 0, max(p.last_at), sum(p.errors), max(p.people)
    from provider_counts p
    where p.project_id = %(project_id)s and p.minute > %(since)s - 60 and p.minute < %(until)s
        and p.last_at >= %(since)s and (%(environment)s::text is null or p.environment = %(environment)s)
    group by p.case_id) m
left join cases c on c.project_id = %(project_id)s and c.id = m.case_id
group by 1
order by 2 desc, 1
limit %(most)s

-- people_with_errors --
-- How many people met an error on each UTC day of a period, in an environment or in all; days without any are left out.
select p.day, count(*)
from (
    select
    \include day
    as day,
    \include person_in_error
    as person
    from log_events e
    \include names_in_errors
    where e.project_id = %(project_id)s and
    \include within
        and e.case_id is not null and e.user_id is not null
        and (%(environment)s::text is null or e.environment = %(environment)s)
        and
        \include own
    group by 1, 2) p
group by p.day
order by p.day
limit %(most)s

-- release_errors --
-- How many errors some releases had in a period, in an environment or in all, and from how many people.
select e.release, count(*), count(distinct
\include person_in_error
)
from log_events e
\include names_in_errors
where e.project_id = %(project_id)s and
\include within
    and e.case_id is not null and e.release = any(%(releases)s::text[])
    and (%(environment)s::text is null or e.environment = %(environment)s)
    and
    \include own
group by e.release
limit %(most)s

-- release_traffic --
-- How many events name each of some releases in a period. SDKs name it in one of three properties; the first text
-- counts.
select t.release, count(*)
from (
    select coalesce(nullif(e.properties ->> 'release', ''), nullif(e.properties ->> '$release', ''),
        e.properties ->> '$app_version') as release
    from analytics_events e
    where e.project_id = %(project_id)s and
    \include within
    ) t
where t.release = any(%(releases)s::text[])
group by t.release
limit %(most)s

-- ordered_funnel --
-- How many people came to each level of an ordered funnel and no further; levels that nobody stopped at are left out.
-- The time of a query is what bounds it. Within a scalar subquery the function is not called to plan what follows, too.
select r.level, r.people - r.further
from (
    select u.level, u.people, lead(u.people, 1, 0::bigint) over (order by u.level) as further
    from unnest((select funnel_by_time(project => %(project_id)s, steps => %(events)s::text[], since => %(since)s,
        until => %(until)s, most_rows => 1000000000, reach => %(reach)s))) with ordinality u(people, level)) r
where r.people > r.further
order by r.level
limit %(most)s
