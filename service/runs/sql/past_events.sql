-- The events of cases.
select e.stream_id, e.revision, e.topic, e.payload::text, floor(extract(epoch from e.recorded_at))::bigint
from events e
where e.project_id = %(project_id)s and e.stream_id = any(%(case_ids)s::text[])
order by e.stream_id, e.revision
