-- setup --
-- A project for one of its members: name, role, the first characters of its DSN, and whether events and deploys came.
select p.name, m.role, p.dsn_prefix,
    exists (select from usage_days u where u.project_id = p.project_id and (u.errors > 0 or u.analytics > 0)),
    exists (select from deploys d where d.project_id = p.project_id)
from projects p
cross join lateral (select coalesce(
    (select role from memberships where project_id = %(project_id)s and user_id = %(user_id)s),
    (select 'auditor' from auditors where project_id = %(project_id)s and user_id = %(user_id)s)) as role) m
where p.project_id = %(project_id)s and p.id = %(project_id)s and m.role is not null

-- deploys --
-- Whether a project has a deploy, and of those to an environment how many of the newest there are, and when the last
-- was recorded.
select exists (select from deploys e where e.project_id = %(project_id)s), count(*), max(d.recorded_at)
from (
    select n.recorded_at from deploys n
    where n.project_id = %(project_id)s and n.environment = %(environment)s
    order by n.recorded_at desc limit %(newest)s
) d
