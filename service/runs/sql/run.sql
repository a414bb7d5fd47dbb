-- A run with its contract and its recorded report, which lists leave out: it may be long.
select json_build_object(
    'run',
    \ir parts/run_bundle.sql
    , 'contract', (select row_to_json(a) from automation_contracts a where a.project_id = r.project_id),
    'report_json', (
        select p.report_json from reports p where p.project_id = r.project_id and p.id = r.state ->> 'report_id'))::text
from automation_runs r
where r.project_id = %(project_id)s and r.id = %(run_id)s
