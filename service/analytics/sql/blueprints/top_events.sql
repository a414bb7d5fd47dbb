-- The events of a project by how often they were received.
select e.event, count(*), count(distinct e.distinct_id), max(e.received_at)
from analytics_events e
where e.project_id = %(project_id)s and e.received_at >= %(since)s and e.received_at < %(until)s
group by e.event
order by 2 desc, 1
limit %(most)s
