-- Every case of a project with its counters, the comments of members and the runs of agents: a JSON object each.
select json_build_object(
    'id', c.id, 'revision', c.case_revision, 'status', c.status, 'fingerprint', c.fingerprint,
    'grouping_version', c.grouping_version, 'suppression_id', c.suppression_id, 'opened_at', c.opened_at,
    'resolved_at', c.resolved_at, 'merged_into', c.merged_into, 'assignee', c.assignee, 'title', s.title,
    'message', s.message, 'culprit', s.culprit, 'level', s.level, 'environment', s.environment, 'release', s.release,
    'environments', s.environments, 'releases', s.releases, 'unmarked', s.unmarked, 'event_count', s.event_count,
    'users_affected', s.users_affected, 'first_seen_at', s.first_seen_at, 'last_seen_at', s.last_seen_at,
    'public_count', s.public_count, 'server_last_seen_at', s.server_last_seen_at, 'server_unmarked', s.server_unmarked,
    'server_environments', s.server_environments,
    'sample', s.sample,
    'comments', coalesce((
        select json_agg(
            json_build_object('id', n.id, 'user_id', n.user_id, 'text', n.text, 'commented_at', n.commented_at)
            order by n.commented_at, n.id)
        from case_comments n where n.project_id = c.project_id and n.case_id = c.id), '[]'),
    'agent_runs', coalesce((
        select json_agg(
            json_build_object('id', n.id, 'status', n.status, 'summary_md', n.summary_md, 'pr_url', n.pr_url,
                'recorded_at', n.recorded_at)
            order by n.recorded_at, n.id)
        from case_runs n where n.project_id = c.project_id and n.case_id = c.id), '[]'))::text
from cases c left join case_stats s on s.project_id = c.project_id and s.id = c.id
where c.project_id = %(project_id)s
order by c.id
