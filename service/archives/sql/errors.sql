-- The errors of a project that are kept, oldest first: a JSON object each, and beside it the packed `extra`.
select json_build_object(
    'id', e.id, 'received_at', e.received_at, 'occurred_at', e.occurred_at, 'level', e.level,
    'message', e.message, 'environment', e.environment,
    'release', e.release, 'user', e.user_data, 'tags', e.tags, 'extra', e.extra, 'case_id', e.case_id,
    'fingerprint', e.fingerprint, 'grouped_by', e.grouped_by, 'adjusted', e.adjusted,
    'public', e.public)::text, e.packed
from log_events e
where e.project_id = %(project_id)s
order by e.received_at, e.id
