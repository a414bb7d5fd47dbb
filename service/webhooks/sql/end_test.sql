-- Note the outcome of a test. The stage of a webhook that fails is as before: its error tells. A test that has lasted
-- so long that another has begun leaves the other's place alone.
update webhook_standings s set last_status = %(status)s, last_error = %(error)s,
    testing_until = case when s.test_id = %(delivery)s then null else s.testing_until end,
    tested_at = case when s.test_id = %(delivery)s then (select service_seconds()) else s.tested_at end,
    test_status = case when s.test_id = %(delivery)s then %(status)s else s.test_status end,
    test_error = case when s.test_id = %(delivery)s then %(error)s::text else s.test_error end,
    stage = case when %(error)s::text is null then 'tested' else s.stage end,
    last_delivered_at = case when %(error)s::text is null then (select service_seconds()) else s.last_delivered_at end,
    failing_since = case when %(error)s::text is null then null
        else coalesce(s.failing_since, (select service_seconds())) end
where s.project_id = %(project_id)s and s.id = %(id)s
