-- The latest events of a person, of both kinds.
select * from (
    (select a.id, 'analytics', a.event, null, null, null, null, a.received_at, coalesce(a.adjusted, '[]')
    from analytics_events a
    where a.project_id = %(project_id)s and a.distinct_id = %(person)s
    order by a.received_at desc limit %(recent)s)
    union all
    (select l.id, 'log', l.message, l.level, l.environment, l.release, l.case_id, l.received_at,
        coalesce(l.adjusted, '[]')
    from log_events l
    where l.project_id = %(project_id)s and l.user_id = %(person)s
    order by l.received_at desc limit %(recent)s)
) as e(id, kind, name, level, environment, release, case_id, received_at, adjusted)
order by received_at desc, id desc
limit %(recent)s
