-- Effects that have begun and that nothing has settled, of a project and of one of its automations where these are not
-- null.
select g.project_id, g.automation_id, g.run_id, g.id, g.kind, g.status, (g.state ->> 'consumed_at')::bigint
from grants g
where g.status in ('consumed', 'unresolved')
    and (%(project_id)s::text is null or g.project_id = %(project_id)s)
    and (%(automation_id)s::text is null or g.automation_id = %(automation_id)s)
order by g.project_id, g.automation_id, g.id
limit %(most)s
