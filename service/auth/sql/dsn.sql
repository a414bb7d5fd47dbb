-- The project of a DSN, who pays for it, and whether it is active.
select p.id, paying_account(project => p.id, maker => p.created_by),
    owned_status(project => p.project_id, status => p.status) = 'active'
from projects p
where p.dsn_hash = %(digest)s
limit 1
