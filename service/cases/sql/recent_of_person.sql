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
