-- Run `r` with what hangs on it.
json_build_object(
    'now', (select service_seconds()),
    'fenced', coalesce((
        select p.status <> 'active' from projects p
        where p.project_id = r.project_id and p.id = r.project_id), false),
    'run', row_to_json(r),
    'claim', (select row_to_json(c) from claims c where c.project_id = r.project_id and c.id = r.claim_id),
    'lease', (select row_to_json(l) from leases l where l.project_id = r.project_id and l.case_id = r.case_id),
    'grants', (
        select coalesce(json_agg(row_to_json(g)), '[]') from grants g
        where g.project_id = r.project_id and g.run_id = r.id),
    'approvals', (
        select coalesce(json_agg(row_to_json(a)), '[]') from approvals a
        where a.project_id = r.project_id and a.run_id = r.id),
    'report', (select p.state from reports p where p.project_id = r.project_id and p.id = r.state ->> 'report_id'))
