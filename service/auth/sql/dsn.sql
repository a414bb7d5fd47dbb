-- The project of a DSN, who pays for it, whether it is active, and its settings for what it sends.
select p.id, paying_account(project => p.id, maker => p.created_by),
    owned_status(project => p.project_id, status => p.status) = 'active',
    coalesce(s.default_level, d.default_level, 'error'), coalesce(s.frame_variables, false)
from projects p
left join public_dsns d on d.project_id = p.project_id and d.id = p.id
left join project_settings s on s.project_id = p.project_id
where p.dsn_hash = %(digest)s
limit 1
