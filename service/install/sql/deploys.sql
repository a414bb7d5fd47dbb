-- Whether a project has a deploy, and of those to an environment how many of the newest there are, and when the last
-- was recorded.
select exists (select from deploys e where e.project_id = %(project_id)s), count(*), max(d.recorded_at)
from (
    select n.recorded_at from deploys n
    where n.project_id = %(project_id)s and n.environment = %(environment)s
    order by n.recorded_at desc limit %(newest)s
) d
