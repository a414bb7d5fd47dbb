-- A page of the projects of a person, newest first, and whether a copy of the DSN is kept.
select p.id, p.name, m.role, p.dsn_prefix, c.ciphertext is not null, p.created_at
from (
    select project_id, role from memberships where user_id = %(user_id)s
    union all
    select project_id, 'auditor' from auditors where user_id = %(user_id)s
) m
join projects p on p.project_id = m.project_id and p.id = m.project_id
left join dsn_copies c on c.project_id = p.project_id and c.id = p.id and c.dsn_hash = p.dsn_hash
where (p.created_at, p.id) < (%(at)s, %(id)s)
order by p.created_at desc, p.id desc
limit %(limit)s
