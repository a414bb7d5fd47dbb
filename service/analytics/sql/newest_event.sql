-- When the newest event of a project was received, and whether anybody has more than one name.
select (select received_at from analytics_events where project_id = %(project_id)s order by received_at desc limit 1),
\ir parts/linked.sql
