-- Every deploy of a project with its message: a JSON object each.
select json_build_object(
    'id', t.id, 'version', t.version, 'environment', t.environment, 'sha', t.sha, 'branch', t.branch,
    'source', t.source, 'trusted', t.trusted, 'credential_id', t.credential_id,
    'automation_run_id', t.automation_run_id, 'recorded_at', t.recorded_at, 'message', n.message)::text
from deploys t left join deploy_notes n on n.project_id = t.project_id and n.id = t.id
where t.project_id = %(project_id)s
order by t.recorded_at, t.id
