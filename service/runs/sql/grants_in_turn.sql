-- Grants by name, each with its run.
select json_build_object('grant', row_to_json(t), 'around',
    \ir parts/run_bundle.sql
)::text
from grants t join automation_runs r on r.project_id = t.project_id and r.id = t.run_id
where (t.project_id, t.id) in (select * from unnest(%(projects)s::text[], %(ids)s::text[]))
