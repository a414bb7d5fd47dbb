-- When the newest error of a project was received, and whether anybody has more than one name. Each error has a case,
-- and cases are found by the hour of their last one.
select max(c.last_seen_at),
\ir parts/linked.sql
from case_stats c
where c.project_id = %(project_id)s and c.last_seen_hour = (
    select last_seen_hour from case_stats where project_id = %(project_id)s order by last_seen_hour desc limit 1)
