-- How many events of a name came in a period by the server's DSN, and by the public one, also of people who were
-- erased; and whether any came by the server's in the time before it.
select count(*) filter (where not e.public), count(*) filter (where e.public), exists (
    select from analytics_events b
    where b.project_id = %(project_id)s and b.event = %(event)s and not b.public and b.received_at > %(before)s
        and b.received_at <= %(since)s
    union all
    select from erased_records b
    where b.project_id = %(project_id)s and b.event = %(event)s and not b.public and b.received_at > %(before)s
        and b.received_at <= %(since)s)
from (
    select a.public from analytics_events a
    where a.project_id = %(project_id)s and a.event = %(event)s
        and a.received_at > %(since)s and a.received_at <= %(until)s
    union all
    select r.public from erased_records r
    where r.project_id = %(project_id)s and r.event = %(event)s
        and r.received_at > %(since)s and r.received_at <= %(until)s) e
