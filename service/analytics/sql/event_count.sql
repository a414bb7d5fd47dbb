-- How many events of a name came in a period by the server's DSN, and by the public one; and whether any came by the
-- server's in the time before it.
select count(*) filter (where not e.public), count(*) filter (where e.public), exists (
    select from analytics_events b
    where b.project_id = %(project_id)s and b.event = %(event)s and not b.public and b.received_at > %(before)s
        and b.received_at <= %(since)s)
from analytics_events e
where e.project_id = %(project_id)s and e.event = %(event)s and e.received_at > %(since)s and e.received_at <= %(until)s
