-- What people wrote in a project, oldest first: a JSON object each.
select json_build_object(
    'id', f.id, 'received_at', f.received_at, 'source', f.source, 'text', f.message, 'name', f.name, 'email', f.email,
    'url', f.url, 'user_id', f.user_id, 'release', f.release, 'environment', f.environment,
    'sdk_event_id', f.event_key, 'event_id', f.error_id, 'case_id', f.case_id, 'adjusted', f.adjusted,
    'public', f.public)::text
from feedback_reports f
where f.project_id = %(project_id)s
order by f.received_at, f.id
