-- When the newest deploy of a project was recorded. Nobody is counted in deploys.
select (select recorded_at from deploys where project_id = %(project_id)s order by recorded_at desc limit 1), false
