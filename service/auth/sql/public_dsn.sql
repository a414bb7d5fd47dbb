-- The project of a public DSN, who pays for it, and whether it is active.
select p.id, paying_account(project => p.id, maker => p.created_by),
    owned_status(project => p.project_id, status => p.status) = 'active'
from public_dsns d
join projects p on p.project_id = d.project_id and p.id = d.project_id
where d.dsn_hash = %(digest)s
limit 1
