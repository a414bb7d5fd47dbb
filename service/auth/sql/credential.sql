-- The live credential of a secret, who pays for its project, and whether that is active.
select row_to_json(t)::text,
    coalesce(paying_account(project => t.project_id, maker => p.created_by), t.project_id),
    coalesce(owned_status(project => p.project_id, status => p.status) = 'active', false)
from credentials t left join projects p on p.project_id = t.project_id and p.id = t.project_id
where t.secret_hash = %(digest)s and t.revoked_at is null and t.expires_at > (select service_seconds())
limit 1
