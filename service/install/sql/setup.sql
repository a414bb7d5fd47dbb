-- A project for one of its members: name, role, the first characters of its DSN, and whether events and deploys came.
select p.name, m.role, p.dsn_prefix,
    exists (select from usage_days u where u.project_id = p.project_id and (u.errors > 0 or u.analytics > 0)),
    exists (select from deploys d where d.project_id = p.project_id)
from projects p
join memberships m on m.project_id = p.project_id and m.user_id = %(user_id)s
where p.project_id = %(project_id)s and p.id = %(project_id)s
