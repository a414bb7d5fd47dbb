-- Runs by name, each with what hangs on it.
select
\ir parts/run_bundle.sql
::text
from automation_runs r
where (r.project_id, r.id) in (select * from unnest(%(projects)s::text[], %(ids)s::text[]))
