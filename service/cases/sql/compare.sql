-- Compare the fingerprints of a stretch of cases with a pattern: how many there are, those that match with what they
-- have counted, and the last of the stretch. Counters are looked up by their keys, and only of cases that match: the
-- planner would read those of the whole project.
with piece as materialized (
    select c.id, c.opened_at, c.fingerprint like %(like)s as matches, c.revision = 1 as own, c.merged_into
    from cases c
    where c.project_id = %(project_id)s and (c.opened_at, c.id) < (%(at)s, %(id)s)
    order by c.opened_at desc, c.id desc limit %(most)s
), last as (
    select q.id from piece q order by q.opened_at, q.id limit 1
)
select (select count(*) from piece), p.opened_at, p.id, p.matches, p.own, p.merged_into, s.event_count,
    s.first_seen_at, s.last_seen_at, s.sample is not null,
    (select t.event_count from case_stats t where t.project_id = %(project_id)s and t.id = p.merged_into)
from piece p
left join lateral (
    select t.* from case_stats t where p.matches and t.project_id = %(project_id)s and t.id = p.id offset 0) s on true
where p.matches or p.id = (select id from last)
order by p.opened_at desc, p.id desc
