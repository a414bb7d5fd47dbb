-- An event with its place in the log, as StoredEvent has it.
f.position, f.project_id, f.stream_id, f.revision, f.kind, f.topic, f.payload::text, f.event_id, f.command_id,
f.actor_kind, f.actor_id, f.request_id, f.correlation_id, f.causation_id, f.recorded_at, f.salt, f.payload_hash,
f.leaf, f.chain
