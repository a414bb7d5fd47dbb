-- When the newest deploy of a project was recorded.
select (select recorded_at from deploys where project_id = %(project_id)s order by recorded_at desc limit 1)
