-- The open session of a secret, its person, and whether they signed in lately.
select t.id, t.project_id, t.authenticated_at >= (select service_seconds()) - %(fresh)s::bigint
from sessions t
where t.secret_hash = %(digest)s and t.status = 'open' and t.expires_at > (select service_seconds())
limit 1
