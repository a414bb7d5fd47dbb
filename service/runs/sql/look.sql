-- Everything that issuing receipts for an automation is judged on before anything is locked: the contract, the
-- environment of the approved signal map, open cases with their chains and the automation's last record of each, and
-- its own open receipts. Whether a case with very many environments has an error where the map says tells its
-- telemetry, which is rarely asked: all its partitions would be planned for and opened with each look.
select json_build_object(
    'now', (select service_seconds()),
    'contract', (select row_to_json(a) from automation_contracts a where a.project_id = p.id),
    'mapped', (select m.plan -> 'deploy' ->> 'environment' from signal_maps m where m.project_id = p.id),
    'cases', (
        select coalesce(json_agg(x.bundle), '[]')
        from (
            select json_build_object(
                \ir parts/case_found.sql
                , 'seen_where_mapped', case
                    when s.environments @> array[
                        (select m.plan -> 'deploy' ->> 'environment' from signal_maps m where m.project_id = p.id)
                    ]::text[] then true
                    when cardinality(s.environments) < %(environments_kept)s then false end,
                'last', (
                    select json_build_object('id', d.id, 'outcome', d.outcome) from automation_decisions d
                    where d.project_id = c.project_id and d.case_id = c.id and d.automation_id = %(automation_id)s
                    order by -d.seq limit 1)) as bundle
            from (
                \ir parts/picked.sql
            ) s
            cross join lateral (select s.project_id, s.id, s.case_revision, 'open' as status) c
            \ir parts/chain.sql
            order by s.event_count desc, s.last_seen_at desc nulls last, s.id
        ) x),
    'open', (
        select coalesce(json_agg(x.bundle), '[]')
        from (
            select
            \ir parts/receipt_bundle.sql
            as bundle
            from trigger_receipts t
            where t.project_id = p.id and t.automation_id = %(automation_id)s and t.status in ('issued', 'claimed')
        ) x))::text
from (values (%(project_id)s::text)) p(id)
