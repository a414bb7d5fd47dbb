-- When the oldest row that is left was received.
select min(e.received_at) from log_events e where e.project_id = %(project_id)s
