-- The claim that the lease of a case names, with the lease, and the time.
select row_to_json(t)::text, row_to_json(l)::text, (select service_seconds())
from leases l
join claims t on t.project_id = l.project_id and t.id = l.claim_id
join projects p on p.project_id = l.project_id and p.status = 'active'
where l.project_id = %(project_id)s and l.case_id = %(case_id)s
