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
