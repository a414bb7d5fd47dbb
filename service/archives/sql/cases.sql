-- Every case of a project with its counters: a JSON object each. Comments and runs of agents are lines of their own.
select json_build_object(
    'id', c.id, 'revision', c.case_revision, 'status', c.status, 'fingerprint', c.fingerprint,
    'grouping_version', c.grouping_version, 'suppression_id', c.suppression_id, 'opened_at', c.opened_at,
    'resolved_at', c.resolved_at, 'merged_into', c.merged_into, 'assignee', c.assignee, 'title', s.title,
    'message', s.message, 'culprit', s.culprit, 'level', s.level, 'environment', s.environment, 'release', s.release,
    'environments', s.environments, 'releases', s.releases, 'unmarked', s.unmarked, 'event_count', s.event_count,
    'users_affected', s.users_affected, 'first_seen_at', s.first_seen_at, 'last_seen_at', s.last_seen_at,
    'first_occurred_at', s.first_occurred_at, 'last_occurred_at', s.last_occurred_at,
    'public_count', s.public_count, 'server_last_seen_at', s.server_last_seen_at, 'server_unmarked', s.server_unmarked,
    'server_environments', s.server_environments,
    'sample', s.sample)::text
from cases c left join case_stats s on s.project_id = c.project_id and s.id = c.id
where c.project_id = %(project_id)s
order by c.id
