-- Those of some event names that a project has sent.
select name
from unnest(%(names)s::text[]) name
where exists (select from analytics_events e where e.project_id = %(project_id)s and e.event = name)
