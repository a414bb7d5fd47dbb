-- How automation stands in a project: whether there is a contract, whether it is enabled, whether an automation is on
-- without a live credential of a runner; whether the installation is stopped, whether an owner asks, and whether the
-- project is being deleted.
select coalesce(bool_or(true), false), coalesce(bool_or(k.status = %(enabled)s), false),
    coalesce(bool_or(exists (
        select from jsonb_array_elements(k.automations) a
        where (a ->> 'enabled')::boolean and not exists (
            select from credentials c
            where c.project_id = k.project_id and c.automation_id = a -> 'saved' ->> 'automation_id'
                and c.revoked_at is null and c.expires_at > (select service_seconds())))), false),
    coalesce((
        select e.topic = %(stopped)s from events e
        where e.project_id = %(stop_scope)s and e.stream_id = %(stop_stream)s
        order by e.revision desc limit 1), false),
    exists (select from memberships m
        where m.project_id = %(project_id)s and m.user_id = %(user_id)s and m.role = %(owner)s),
    not exists (select from projects p
        where p.project_id = %(project_id)s and p.id = %(project_id)s and p.status = 'active')
from automation_contracts k
where k.project_id = %(project_id)s
