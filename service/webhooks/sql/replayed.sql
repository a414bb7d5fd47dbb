-- The number of deliveries in a range that a keyed request has queued.
select count(*) from webhook_deliveries d
where d.project_id = %(project_id)s and d.webhook_id = %(webhook_id)s
    and d.position > %(after)s and d.position <= %(until)s and d.asked = %(asked)s
