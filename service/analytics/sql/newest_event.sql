-- When the newest event of a project was received.
select (select received_at from analytics_events where project_id = %(project_id)s order by received_at desc limit 1)
