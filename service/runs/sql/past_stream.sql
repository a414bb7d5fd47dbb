-- The events of one stream.
select e.revision, e.topic, e.payload::text, floor(extract(epoch from e.recorded_at))::bigint
from events e
where e.project_id = %(project_id)s and e.stream_id = %(stream_id)s
order by e.revision
