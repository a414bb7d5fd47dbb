-- How many errors of an environment came before a deploy (0) and after it (1), and how many cases they opened.
select p.place, (
    select count(*) from log_events e
    where e.project_id = %(project_id)s and e.received_at >= p.since and e.received_at < p.until
        and e.case_id is not null and e.environment = %(environment)s
), (
    select count(*) from cases c
    where c.project_id = %(project_id)s and c.opened_at >= p.since and c.opened_at < p.until and exists (
        select from log_events e
        where e.project_id = %(project_id)s and e.case_id = c.id and e.environment = %(environment)s
            and e.received_at >= p.since and e.received_at < p.until)
)
from (values (0, %(since)s::bigint, %(deployed_at)s::bigint), (1, %(deployed_at)s, %(until)s)) p(place, since, until)
limit %(most)s
