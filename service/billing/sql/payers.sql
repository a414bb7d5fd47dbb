-- Every active project with the account that pays for it.
select p.project_id, paying_account(project => p.project_id, maker => p.created_by)
from projects p
where p.status = 'active'
