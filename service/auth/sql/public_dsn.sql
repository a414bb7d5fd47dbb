-- The project of a public DSN, who pays for it, whether it is active, and its settings for what it sends.
select p.id, paying_account(project => p.id, maker => p.created_by),
    owned_status(project => p.project_id, status => p.status) = 'active',
    coalesce(s.default_level, d.default_level), coalesce(s.frame_variables, false)
from public_dsns d
join projects p on p.project_id = d.project_id and p.id = d.project_id
left join project_settings s on s.project_id = p.project_id
where d.dsn_hash = %(digest)s
limit 1
