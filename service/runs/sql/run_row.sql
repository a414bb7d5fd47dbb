-- The row of a run, and the time.
select row_to_json(t)::text, (select service_seconds())
from automation_runs t
where t.project_id = %(project_id)s and t.id = %(run_id)s
