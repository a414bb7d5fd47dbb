-- When the latest log or analytics event of a project was received.
select max(last_received_at) from usage_days where project_id = %(project_id)s
