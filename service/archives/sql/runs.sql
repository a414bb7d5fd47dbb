-- The rows of all runs of a project.
select row_to_json(t)::text from automation_runs t where t.project_id = %(project_id)s order by t.id
