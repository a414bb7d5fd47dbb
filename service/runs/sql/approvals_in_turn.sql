-- Requests by name, each with its run.
select json_build_object('approval', row_to_json(a), 'around',
    \ir parts/run_bundle.sql
)::text
from approvals a join automation_runs r on r.project_id = a.project_id and r.id = a.run_id
where (a.project_id, a.id) in (select * from unnest(%(projects)s::text[], %(ids)s::text[]))
