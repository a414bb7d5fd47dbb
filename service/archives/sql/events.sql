-- The numbered events of a project in the order of the log, each as StoredEvent has it.
select p.position, e.project_id, e.stream_id, e.revision, e.kind, e.topic, e.payload::text, e.event_id, e.command_id,
    e.actor_kind, e.actor_id, e.request_id, e.correlation_id, e.causation_id, e.recorded_at, e.salt, e.payload_hash,
    e.leaf, e.chain
from project_positions p join events e on e.seq = p.seq
where p.project_id = %(project_id)s and e.project_id = %(project_id)s
order by p.position
