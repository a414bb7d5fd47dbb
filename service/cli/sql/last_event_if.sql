-- The reason in a stream's last event and its time, if it is of a topic.
select e.payload ->> 'why', e.recorded_at::timestamptz(0)::text
from stream_heads h
join events e on e.project_id = h.project_id and e.stream_id = h.stream_id and e.revision = h.revision
where h.project_id = %(project_id)s and h.stream_id = %(stream_id)s and e.topic = %(topic)s
