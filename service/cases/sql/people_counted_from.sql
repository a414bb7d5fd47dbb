-- When the oldest of the rows was received that people_of_project looks at, where there are more since the time.
select l.received_at
from log_events l
where l.project_id = %(project_id)s and l.received_at >= %(since)s
order by l.received_at desc, l.id desc
offset %(before)s limit 1
