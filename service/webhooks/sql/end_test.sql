-- Note the outcome of a test. The stage of a webhook that fails is as before: its error tells.
update webhook_standings set testing_until = null, last_status = %(status)s, last_error = %(error)s,
    stage = case when %(error)s::text is null then 'tested' else stage end,
    last_delivered_at = case when %(error)s::text is null then (select service_seconds()) else last_delivered_at end,
    failing_since = case when %(error)s::text is null then null
        else coalesce(failing_since, (select service_seconds())) end
where project_id = %(project_id)s and id = %(id)s
