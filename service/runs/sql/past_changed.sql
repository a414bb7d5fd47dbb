-- Cases to which something happened since a moment: an error, or an event of their own.
select e.case_id
from log_events e
where e.project_id = %(project_id)s and e.case_id is not null and e.received_at > %(start)s
union
select e.stream_id
from events e
where e.project_id = %(project_id)s and e.kind = 'case' and e.recorded_at >= to_timestamp(%(start)s + 1)
