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
