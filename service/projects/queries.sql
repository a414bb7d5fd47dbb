-- health --
-- What waits for attention in a project: its last deploy, its open cases but for those of an onboarding proof alone,
-- the cases that it opened in this hour and those of them by the public DSN, the hour's overflow case, and whether the
-- project is being deleted, the level of its records without any, and when the last of those came within a day.
-- Then, when its provider was connected, up to when the exceptions there were read, how many were too many, and whether
-- it has no error at all.
select (select max(d.recorded_at) from deploys d where d.project_id = %(project_id)s),
    (select count(*) from cases c where c.project_id = %(project_id)s and c.status = 'open')
        + (select count(*) from cases c where c.project_id = %(project_id)s and c.status = 'overflow')
        - (select count(*) from case_stats s join cases c on c.project_id = s.project_id and c.id = s.id
            where s.project_id = %(project_id)s and not s.unmarked and c.status = 'open' and not exists (
                select from cases m join case_stats t on t.project_id = m.project_id and t.id = m.id
                where m.project_id = s.project_id and m.merged_into = s.id and t.unmarked)),
    (select r.opened from case_rates r where r.project_id = %(project_id)s and r.hour = %(hour)s),
    (select least(r.opened_public, r.opened) from case_rates r
        where r.project_id = %(project_id)s and r.hour = %(hour)s),
    c.id, coalesce(c.status = 'overflow', false),
    not exists (select from projects p where p.project_id = wanted.project_id and p.id = wanted.project_id
        and p.status = 'active'),
    coalesce(
        (select s.default_level from project_settings s where s.project_id = %(project_id)s),
        (select d.default_level from public_dsns d where d.project_id = %(project_id)s and d.id = %(project_id)s),
        'error'),
    (select max(k.last_at) from kinds_not_kept k where k.project_id = %(project_id)s and k.day >= %(a_day_ago)s - 86400
        and k.outcome = 'without_level' and k.last_at >= %(a_day_ago)s),
    (select max(t.connected_at) from provider_connections t where t.project_id = %(project_id)s
        and t.status = 'connected'),
    l.read_to, coalesce(l.skipped, 0), not exists (select from case_stats s where s.project_id = %(project_id)s)
from (values (%(project_id)s, %(overflow_id)s)) wanted(project_id, id)
left join cases c on c.project_id = wanted.project_id and c.id = wanted.id
left join provider_looks l on l.project_id = wanted.project_id and l.id = wanted.project_id

-- not_kept --
-- What a project has sent since a day that is not kept, by kind. Records without a level are.
select k.protocol, k.kind, k.outcome, sum(k.amount)::bigint, max(k.last_at)
from kinds_not_kept k
where k.project_id = %(project_id)s and k.day >= %(since)s and k.outcome <> 'without_level'
group by k.protocol, k.kind, k.outcome
order by k.protocol, k.kind, k.outcome

-- latest_logs --
-- The newest record of each level below `error`, newest first, among so many of any level received at `since` or later.
select level, message, received_at from (
    select distinct on (e.level) e.level, left(e.message, 200) as message, e.received_at, e.id from (
        select * from log_events e where e.project_id = %(project_id)s and e.received_at >= %(since)s
        order by e.received_at desc, e.id desc limit %(looked)s
    ) e
    where e.case_id is null
    order by e.level, e.received_at desc, e.id desc
) e
order by e.received_at desc, e.id desc

-- arrived --
-- What has arrived in a project at all, what has been set up in it, and whether it has any error, by whatever way.
select coalesce(bool_or(u.errors > 0), false), coalesce(bool_or(u.analytics > 0), false),
    exists (select from deploys d where d.project_id = %(project_id)s),
    exists (select from cases c where c.project_id = %(project_id)s),
    exists (select from cases c where c.project_id = %(project_id)s and c.status = 'open' and not exists (
        select from case_stats s where s.project_id = c.project_id and s.id = c.id and not s.unmarked and not exists (
            select from cases m join case_stats t on t.project_id = m.project_id and t.id = m.id
            where m.project_id = s.project_id and m.merged_into = s.id and t.unmarked)))
        or exists (select from cases c where c.project_id = %(project_id)s and c.status = 'overflow'),
    exists (select from provider_connections n where n.project_id = %(project_id)s and n.status = 'connected'),
    exists (select from onboarding o where o.project_id = %(project_id)s),
    exists (select from onboarding o where o.project_id = %(project_id)s and o.status <> %(verified)s),
    exists (select from case_stats s where s.project_id = %(project_id)s)
from usage_days u
where u.project_id = %(project_id)s

-- automation --
-- How automation stands in a project: whether there is a contract, whether it is enabled, whether an automation is on
-- without a live credential of a runner; whether the installation is stopped, whether an owner asks, and whether the
-- project is being deleted.
select coalesce(bool_or(true), false), coalesce(bool_or(k.status = %(enabled)s), false),
    coalesce(bool_or(exists (
        select from jsonb_array_elements(k.automations) a
        where (a ->> 'enabled')::boolean and not exists (
            select from credentials c
            where c.project_id = k.project_id and c.automation_id = a -> 'saved' ->> 'automation_id'
                and c.revoked_at is null and c.expires_at > (select service_seconds())))), false),
    coalesce((
        select e.topic = %(stopped)s from events e
        where e.project_id = %(stop_scope)s and e.stream_id = %(stop_stream)s
        order by e.revision desc limit 1), false),
    exists (select from memberships m
        where m.project_id = %(project_id)s and m.user_id = %(user_id)s and m.role = %(owner)s),
    not exists (select from projects p
        where p.project_id = %(project_id)s and p.id = %(project_id)s and p.status = 'active')
from automation_contracts k
where k.project_id = %(project_id)s

-- projects_of --
-- A page of the projects of a person, newest first, and whether a copy of the DSN is kept.
select p.id, p.name, m.role, p.dsn_prefix, c.ciphertext is not null, p.created_at
from (
    select project_id, role from memberships where user_id = %(user_id)s
    union all
    select project_id, 'auditor' from auditors where user_id = %(user_id)s
) m
join projects p on p.project_id = m.project_id and p.id = m.project_id
left join dsn_copies c on c.project_id = p.project_id and c.id = p.id and c.dsn_hash = p.dsn_hash
where (p.created_at, p.id) < (%(at)s, %(id)s)
order by p.created_at desc, p.id desc
limit %(limit)s

-- dsn_of --
-- The first characters of a project's DSN, and the sealed copy of all of it, where there is one. Then the same of the
-- public one.
select p.dsn_prefix, c.ciphertext, d.dsn_prefix, k.ciphertext
from projects p
left join dsn_copies c on c.project_id = p.project_id and c.id = p.id and c.dsn_hash = p.dsn_hash
left join public_dsns d on d.project_id = p.project_id and d.id = p.id
left join dsn_copies k on k.project_id = d.project_id and k.id = 'public' and k.dsn_hash = d.dsn_hash
where p.project_id = %(project_id)s and p.id = %(project_id)s

-- settings --
-- The settings of a project in force, with the revision of their latest change, its time and its author. The last three
-- are null before the first one.
select accepts_public(project => p.project_id), coalesce(s.default_level, d.default_level, 'error'),
    coalesce(s.frame_variables, false), s.required_evidence_source, s.maximum_error_probability,
    coalesce(s.notification_titles, true), s.revision, s.changed_at, s.changed_by
from projects p
left join public_dsns d on d.project_id = p.project_id and d.id = p.id
left join project_settings s on s.project_id = p.project_id
where p.project_id = %(project_id)s and p.id = %(project_id)s
