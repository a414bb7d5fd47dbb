-- Where case `c`, counted in `s`, stands with automation: a column for a query of cases. See standing_of.
(select json_build_object(
    'now', (select service_seconds()),
    'contract', (select row_to_json(a) from automation_contracts a where a.project_id = c.project_id),
    'case', json_build_object(
        \ir case_found.sql
    ),
    'environments', s.environments,
    'mapped', (select m.plan -> 'deploy' ->> 'environment' from signal_maps m where m.project_id = c.project_id),
    'fenced', exists (select from projects where project_id = c.project_id and status <> 'active'),
    'last', (
        select coalesce(json_agg(row_to_json(d)), '[]')
        from (
            select distinct on (automation_id) automation_id, outcome, code, decided_at
            from automation_decisions
            where project_id = c.project_id and case_id = c.id
            order by automation_id, -seq) d))::text
from (select c.project_id, c.id, c.case_revision, c.status) c
\ir chain.sql
)
