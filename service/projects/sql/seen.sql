-- Of each milestone's event how many of the newest rows there are, and the properties that these have: what only older
-- rows had is not in place any more.
select m.event, count(n.properties), coalesce(array_agg(distinct k.name) filter (where k.name is not null), '{}')
from unnest(%(events)s::text[]) m(event)
left join lateral (
    select a.properties from analytics_events a
    where a.project_id = %(project_id)s and a.event = m.event
    order by a.received_at desc limit %(newest)s
) n on true
left join lateral jsonb_object_keys(n.properties) k(name) on true
group by m.event
