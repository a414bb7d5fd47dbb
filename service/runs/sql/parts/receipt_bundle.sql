-- Receipt `t` with what hangs on it.
json_build_object(
    'now', (select service_seconds()),
    'fenced', coalesce((
        select p.status <> 'active' from projects p
        where p.project_id = t.project_id and p.id = t.project_id), false),
    'receipt', row_to_json(t),
    'claim', (select row_to_json(c) from claims c where c.project_id = t.project_id and c.id = t.claim_id),
    'lease', (select row_to_json(l) from leases l where l.project_id = t.project_id and l.case_id = t.case_id),
    'case', (select row_to_json(k) from cases k where k.project_id = t.project_id and k.id = t.case_id),
    'evidence', (select row_to_json(e) from trigger_evidence e where e.project_id = t.project_id and e.id = t.id))
