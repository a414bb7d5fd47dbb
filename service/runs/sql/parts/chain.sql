-- The latest chain of case `c`: its lease, the receipt, the claim and the run of this.
left join leases l on l.project_id = c.project_id and l.case_id = c.id
left join trigger_receipts t on t.project_id = c.project_id and t.id = l.receipt_id
left join claims k on k.project_id = c.project_id and k.id = l.claim_id
left join automation_runs r on r.project_id = c.project_id and r.id = l.run_id
