-- When the newest error of a project came in, and among its newest records how many errors have the marker of a failure
-- (null: none is looked for), and when the last of those came in. Each error has a case, also once its row is gone.
select (
    select max(c.last_seen_at) from case_stats c
    where c.project_id = %(project_id)s and c.last_seen_hour = (
        select s.last_seen_hour from case_stats s
        where s.project_id = %(project_id)s order by s.last_seen_hour desc limit 1)
), f.shown, f.last_at
from (
    select count(*) as shown, max(r.received_at) as last_at
    from (
        select l.received_at, l.case_id, l.message, l.tags, l.extra from log_events l
        where l.project_id = %(project_id)s and %(failure)s::text is not null
        order by l.received_at desc limit %(most)s
    ) r
    where r.case_id is not null and (r.tags ->> %(key)s = %(failure)s or r.extra ->> %(key)s = %(failure)s
        or strpos(r.message, %(failure)s) > 0)
) f
