-- Where case `c`, counted in `s`, stands with automation: a column for a query of cases. See standing_of.
(select json_build_object(
    'now', (select service_seconds()),
    'contract', (select row_to_json(a) from automation_contracts a where a.project_id = c.project_id),
    'case', json_build_object(
        \ir case_found.sql
    ),
    'environments', s.environments,
    'mapped', (select m.plan -> 'deploy' ->> 'environment' from signal_maps m where m.project_id = c.project_id),
    'fenced', coalesce((
        select p.status <> 'active' from projects p
        where p.project_id = c.project_id and p.id = c.project_id), false),
    'last', (
        select coalesce(json_agg(row_to_json(d)), '[]')
        from (
            select distinct on (d.automation_id) d.automation_id, d.outcome, d.code, d.decided_at
            from automation_decisions d
            where d.project_id = c.project_id and d.case_id = c.id
            order by d.automation_id, -d.seq) d))::text
from (select c.project_id, c.id, c.case_revision, c.status) c
\ir chain.sql
)
