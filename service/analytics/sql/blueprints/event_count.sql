-- How often an event was received, and from how many people.
select count(*), count(distinct e.distinct_id)
from analytics_events e
where e.project_id = %(project_id)s and e.event = %(event)s
    and e.received_at >= %(since)s and e.received_at < %(until)s
limit %(most)s
