-- A case with its counters, its lease and the rules, what was merged into it and what people wrote about it; and beside
-- it a column of whoever asks, over case `c` and its counters `s`.
select json_build_object(
    'now', (select service_seconds()), 'today', (select service_today()),
    'case', row_to_json(c), 'stats', row_to_json(s), 'lease', row_to_json(l), 'claim', row_to_json(k),
    'rules', row_to_json(r),
    'merged', coalesce((
        select json_agg(
            json_build_object('case_id', m.id, 'fingerprint', m.fingerprint, 'event_count', t.event_count)
            order by m.id)
        from cases m join case_stats t on t.project_id = m.project_id and t.id = m.id
        where m.project_id = c.project_id and m.merged_into = c.id), '[]'),
    'comments', coalesce((
        select json_agg(row_to_json(n) order by n.commented_at desc, n.id desc)
        from (
            select * from case_comments n where n.project_id = c.project_id and n.case_id = c.id
            order by n.commented_at desc, n.id desc limit 50) n), '[]'),
    'runs', coalesce((
        select json_agg(row_to_json(n) order by n.recorded_at desc, n.id desc)
        from (
            select * from case_runs n where n.project_id = c.project_id and n.case_id = c.id
            order by n.recorded_at desc, n.id desc limit 50) n), '[]'),
    'people',
    \ir parts/people.sql
    , 'absorbed', row_to_json(g))::text, {beside}
from cases c
join case_stats s on s.project_id = c.project_id and s.id = c.id
\ir parts/merged.sql
left join projects p on p.project_id = c.project_id and p.status = 'active'
left join leases l on l.project_id = p.project_id and l.case_id = c.id
left join claims k on k.project_id = l.project_id and k.id = l.claim_id
left join suppressions r on r.project_id = c.project_id and r.id = %(suppressions_id)s
where c.project_id = %(project_id)s and c.id = %(case_id)s
