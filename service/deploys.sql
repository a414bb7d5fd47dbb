-- payer --
-- The account that pays for a project.
select paying_account(project => p.id, maker => p.created_by)
from projects p
where p.project_id = %(project_id)s and p.id = %(project_id)s

-- newest --
-- A page of the deploys of a project, newest first.
select row_to_json(d)::text, n.message
from deploys d left join deploy_notes n on n.project_id = d.project_id and n.id = d.id
where d.project_id = %(project_id)s and (d.recorded_at, d.id) < (%(at)s, %(id)s)
order by d.recorded_at desc, d.id desc
limit %(limit)s

-- newest_of_environment --
-- A page of the deploys of a project to one environment, newest first.
select row_to_json(d)::text, n.message
from deploys d left join deploy_notes n on n.project_id = d.project_id and n.id = d.id
where d.project_id = %(project_id)s and (d.recorded_at, d.id) < (%(at)s, %(id)s) and d.environment = %(environment)s
order by d.recorded_at desc, d.id desc
limit %(limit)s

-- cases_after --
-- What happened to cases after a deploy, before the next deploy to its environment: how many opened, were resolved and
-- regressed, when that deploy was recorded, and how many events of the project were looked at, of so many at most.
with deployed as (
    select i.position from events e join log_index i on i.seq = e.seq
    where e.project_id = %(project_id)s and e.stream_id = %(id)s and e.revision = 1
), looked as materialized (
    select p.position, p.seq from project_positions p
    where p.project_id = %(project_id)s and p.position > (select d.position from deployed d)
    order by p.position limit %(most)s
), found as materialized (
    select l.position, e.topic, e.stream_id from looked l join events e on e.seq = l.seq
    where e.project_id = %(project_id)s and e.topic = any(%(topics)s::text[])
), ended as (
    select f.position, d.recorded_at
    from found f join deploys d on d.project_id = %(project_id)s and d.id = f.stream_id
    where f.topic = %(deployed)s and d.environment = %(environment)s
    order by f.position limit 1
), after as (
    select f.topic, f.stream_id from found f
    where not exists (select from ended n where n.position < f.position)
)
select (select count(distinct a.stream_id) from after a where a.topic = %(opened)s),
    (select count(distinct a.stream_id) from after a where a.topic = any(%(resolved)s::text[])),
    (select count(distinct a.stream_id) from after a where a.topic = %(regressed)s),
    (select n.recorded_at from ended n), (select count(*) from looked)
