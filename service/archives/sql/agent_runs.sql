-- The runs of agents on the cases of a project, by case, oldest first: a JSON object each.
select json_build_object(
    'case_id', n.case_id, 'id', n.id, 'status', n.status, 'summary_md', n.summary_md, 'pr_url', n.pr_url,
    'recorded_at', n.recorded_at)::text
from case_runs n
where n.project_id = %(project_id)s
order by n.case_id, n.recorded_at, n.id
