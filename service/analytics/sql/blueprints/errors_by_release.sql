-- How many errors each release had, and how many people met them; null for errors that name no release.
select e.release, count(*), count(distinct e.user_id), min(e.received_at), max(e.received_at)
from log_events e
where e.project_id = %(project_id)s and e.case_id is not null
    and e.received_at >= %(since)s and e.received_at < %(until)s
    and (%(environment)s::text is null or e.environment = %(environment)s)
group by e.release
order by 2 desc, 1 nulls last
limit %(most)s
