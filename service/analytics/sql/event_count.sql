-- How many events of a name came in a period by the server's DSN, and by the public one, also of people who were
-- erased; and whether any came by the server's in the time before it. Those of one environment count, and those
-- without one where less than half of the newest before the period name one: of how many, and how many do.
with newest as (
    (select e.received_at,
        \ir parts/named_environment.sql
        as environment
    from analytics_events e
    where e.project_id = %(project_id)s and e.event = %(event)s and e.received_at <= %(since)s
    order by e.received_at desc limit %(looked)s)
    union all
    (select r.received_at, r.environment from erased_records r
    where r.project_id = %(project_id)s and r.event = %(event)s and r.received_at <= %(since)s
    order by r.received_at desc limit %(looked)s)
), usual as (
    select count(*) as looked, count(n.environment) as named
    from (select w.environment from newest w order by w.received_at desc limit %(looked)s) n
)
select count(*) filter (where not t.public), count(*) filter (where t.public), exists (
    select from analytics_events b
    where b.project_id = %(project_id)s and b.event = %(event)s and not b.public and b.received_at > %(before)s
        and b.received_at <= %(since)s
    union all
    select from erased_records b
    where b.project_id = %(project_id)s and b.event = %(event)s and not b.public and b.received_at > %(before)s
        and b.received_at <= %(since)s), (select u.looked from usual u), (select u.named from usual u)
from (
    select e.public,
        \ir parts/named_environment.sql
        as environment
    from analytics_events e
    where e.project_id = %(project_id)s and e.event = %(event)s
        and e.received_at > %(since)s and e.received_at <= %(until)s
    union all
    select r.public, r.environment from erased_records r
    where r.project_id = %(project_id)s and r.event = %(event)s
        and r.received_at > %(since)s and r.received_at <= %(until)s) t
where t.environment = %(environment)s
    or t.environment is null and (select 2 * u.named < greatest(u.looked, 1) from usual u)
