-- The first characters of a project's DSN, and the sealed copy of all of it, where there is one.
select p.dsn_prefix, c.ciphertext
from projects p
left join dsn_copies c on c.project_id = p.project_id and c.id = p.id and c.dsn_hash = p.dsn_hash
where p.project_id = %(project_id)s and p.id = %(project_id)s
