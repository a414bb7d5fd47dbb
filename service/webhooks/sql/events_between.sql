-- The deliverable events of a project between two positions of the log, from the registration of a webhook on.
select p.position, e.event_id, e.topic, e.stream_id, e.revision, floor(extract(epoch from e.recorded_at))::bigint
from project_positions p join events e on e.seq = p.seq
where p.project_id = %(project_id)s and p.position > greatest(%(after)s, (
        select r.position from events f join log_index r on r.seq = f.seq
        where f.project_id = %(project_id)s and f.stream_id = %(webhook_id)s and f.revision = 1))
    and p.position <= %(until)s and e.project_id = %(project_id)s and e.topic = any(%(topics)s::text[])
    and e.payload is not null
order by p.position
