-- Every report of a project: a JSON object each.
select json_build_object(
    'id', t.id, 'run_id', t.run_id, 'automation_id', t.automation_id, 'status', t.status,
    'period_start', t.period_start, 'period_end', t.period_end, 'recorded_at', t.recorded_at,
    'report', t.report_json::jsonb)::text
from reports t
where t.project_id = %(project_id)s
order by t.id
