-- How many log and analytics events a project has received since a time.
select (select count(*) from log_events where project_id = %(project_id)s and received_at > %(since)s)
    + (select count(*) from analytics_events where project_id = %(project_id)s and received_at > %(since)s)
