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
