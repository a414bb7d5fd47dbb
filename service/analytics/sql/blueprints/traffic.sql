-- How many events of any name came in a period before a moment (0) and from it on (1).
select case when e.received_at < %(moment)s then 0 else 1 end, count(*)
from analytics_events e
where e.project_id = %(project_id)s and e.received_at >= %(since)s and e.received_at < %(until)s
group by 1
order by 1
limit %(most)s
