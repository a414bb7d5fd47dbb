-- before_self_hosted --
-- Whether the installation is older than the plan `self_hosted`.
select before_self_hosted from installation

-- payers --
-- Every active project with the account that pays for it.
select p.project_id, paying_account(project => p.project_id, maker => p.created_by)
from projects p
where p.status = 'active'

-- plans_of_project --
-- The plans of an account that pays for a project, of subscriptions by which records are kept.
select s.plan
from subscriptions s
where s.project_id = (
    select paying_account(project => p.project_id, maker => p.created_by) from projects p
    where p.project_id = %(project_id)s and p.id = %(project_id)s
) and s.status = any(%(keeping)s)

-- payer --
-- The account that pays for a project.
select p ->> 3 from json_array_elements(ingest_projects(wanted => array[%(project_id)s])) p

-- usage_of_account --
-- What the projects of an account have sent in some days, deleted ones included; days without records are left out.
select day, sum(errors)::bigint, sum(analytics)::bigint, sum(deploys)::bigint
from (
    select day, errors, analytics, 0 as deploys from usage_days
    where account_id = %(id)s and day between %(first)s and %(last)s
    union all
    select day, 0, 0, 1 from usage_deploys where account_id = %(id)s and day between %(first)s and %(last)s
) d
group by day
order by day

-- usage_of_project --
-- What a project has sent in some days; days without records are left out.
select day, sum(errors)::bigint, sum(analytics)::bigint, sum(deploys)::bigint
from (
    select day, errors, analytics, 0 as deploys from usage_days
    where project_id = %(id)s and day between %(first)s and %(last)s
    union all
    select day, 0, 0, 1 from usage_deploys where project_id = %(id)s and day between %(first)s and %(last)s
) d
group by day
order by day

-- last_event --
-- When the latest log or analytics event of a project was received.
select max(last_received_at) from usage_days where project_id = %(project_id)s

-- events_since --
-- How many log and analytics events a project has received since a time, without an import.
select (
        select count(*) from log_events where project_id = %(project_id)s and received_at > %(since)s
            and not starts_with(coalesce(marker_hash, ''), 'import:'))
    + (select count(*) from analytics_events where project_id = %(project_id)s and received_at > %(since)s)

-- place --
-- Where the round of reconciling goes on. The place is kept among the turns of other sweeps; without one a round
-- begins.
select id from sweep_turns where project_id = '' and step = %(step)s

-- leave_places --
-- Leave all places of a round but one.
delete from sweep_turns where project_id = '' and step = %(step)s and id <> %(place)s

-- keep_place --
-- Keep where a round goes on.
insert into sweep_turns (project_id, step, id, considered_at)
values ('', %(step)s, %(place)s, (select service_now()))
on conflict (project_id, step, id) do update set considered_at = excluded.considered_at
