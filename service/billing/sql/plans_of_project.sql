-- The plans of an account that pays for a project, of subscriptions by which records are kept.
select s.plan
from subscriptions s
where s.project_id = (
    select paying_account(project => p.project_id, maker => p.created_by) from projects p
    where p.project_id = %(project_id)s and p.id = %(project_id)s
) and s.status = any(%(keeping)s)
