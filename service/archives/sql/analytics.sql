-- The analytics events of a project that are kept, oldest first: a JSON object each.
select json_build_object(
    'id', e.id, 'received_at', e.received_at, 'occurred_at', e.occurred_at, 'event', e.event,
    'distinct_id', e.distinct_id,
    'properties', e.properties, 'adjusted', e.adjusted, 'public', e.public)::text
from analytics_events e
where e.project_id = %(project_id)s
order by e.received_at, e.id
