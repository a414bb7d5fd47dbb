-- The first characters of a project's DSN, and the sealed copy of all of it, where there is one. Then the same of the
-- public one.
select p.dsn_prefix, c.ciphertext, d.dsn_prefix, k.ciphertext
from projects p
left join dsn_copies c on c.project_id = p.project_id and c.id = p.id and c.dsn_hash = p.dsn_hash
left join public_dsns d on d.project_id = p.project_id and d.id = p.id
left join dsn_copies k on k.project_id = d.project_id and k.id = 'public' and k.dsn_hash = d.dsn_hash
where p.project_id = %(project_id)s and p.id = %(project_id)s
