-- The newest events of each name that carry a proof's marker, and those that carry another one: rows under markers are
-- few, and found through their index however frequent an event is.
select w.event, r.received_at, r.marker_hash, abridged(object => r.properties, names => %(names)s)
from unnest(%(events)s::text[]) w(event)
cross join lateral (
    select received_at, marker_hash, properties from analytics_events
    where project_id = %(project_id)s and marker_hash = %(marker)s and event = w.event
        and received_at >= %(since)s and received_at < %(until)s
    order by received_at desc limit %(most)s
) r
union all
select s.event, max(s.received_at), s.marker_hash, '{}'::jsonb
from (
    select event, received_at, marker_hash from analytics_events
    where project_id = %(project_id)s and marker_hash is not null and marker_hash <> %(marker)s
        and event = any(%(events)s::text[]) and received_at >= %(since)s and received_at < %(until)s
    limit %(most_stray)s
) s
group by s.event, s.marker_hash
