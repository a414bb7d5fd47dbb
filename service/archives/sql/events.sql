-- The numbered events of a project in the order of the log, each as StoredEvent has it.
select i.position, e.project_id, e.stream_id, e.revision, e.kind, e.topic, e.payload::text, e.event_id, e.command_id,
    e.actor_kind, e.actor_id, e.request_id, e.correlation_id, e.causation_id, e.recorded_at, e.salt, e.payload_hash,
    e.leaf, e.chain
from events e join log_index i on i.seq = e.seq
where e.project_id = %(project_id)s
order by i.position
