-- How many events of a name came in a period.
select count(*) from analytics_events
where project_id = %(project_id)s and event = %(event)s and received_at > %(since)s and received_at <= %(until)s
