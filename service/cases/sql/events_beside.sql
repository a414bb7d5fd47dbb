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
