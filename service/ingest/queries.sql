-- stored_errors --
-- Errors of the last days of a project that are in cases, newest first from a place on: what grouping looks at, and the
-- title of the case.
select e.received_at, e.id, e.case_id, e.message, e.extra::text, e.packed, s.title, e.level,
    e.environment, e.release, e.tags::text
from log_events e
left join case_stats s on s.project_id = e.project_id and s.id = e.case_id
where e.project_id = %(project_id)s and e.case_id is not null
    and (e.received_at, e.id) < (%(at)s, %(id)s) and e.received_at >= (select service_seconds()) - %(days)s * 86400
order by e.received_at desc, e.id desc
limit %(limit)s

-- known_imports --
-- The present time in epoch seconds, and the marks of errors of an import that are stored, of some.
select service_seconds(), array(
    select distinct e.marker_hash from log_events e
    where e.project_id = %(project_id)s and e.marker_hash = any(%(marks)s::text[]))

-- today --
-- The present day, on the service's clock.
select service_today()

-- ensure_partition --
-- Give a day of telemetry its partition; whether it has one now.
select ensure_partition(telemetry => %(telemetry)s, day => %(day)s)

-- drop_ended_partition --
-- Drop a partition with all that it holds, if its day was over at a moment.
select drop_ended_partition(telemetry => %(telemetry)s, partition_name => %(partition)s, ended => %(ended)s)

-- keep_samples --
-- Keep a sample of some cases of a partition, those that come after one, before it is dropped; returns the last of them
-- and how many there were. The cases are found one by one in the partition's index: it has many rows of each. A case
-- has a sample from its first error on that went, and in the end the sample is the last one: those between need not be
-- written. The error is locked: one of a person who is being erased is waited for, and passed over.
with recursive step(project_id, case_id, n) as (
    (select e.project_id, e.case_id, 1
    from {table} e
    where e.case_id is not null and (e.project_id, e.case_id) > (%(after_project)s, %(after_case)s)
    order by e.project_id, e.case_id limit 1)
    union all
    select x.project_id, x.case_id, s.n + 1
    from step s
    cross join lateral (
        select e.project_id, e.case_id from {table} e
        where e.case_id is not null and (e.project_id, e.case_id) > (s.project_id, s.case_id)
        order by e.project_id, e.case_id limit 1) x
    where s.n < %(most)s
), due as (
    select c.project_id, c.id
    from step s join case_stats c on c.project_id = s.project_id and c.id = s.case_id
    where c.sample is null or coalesce(c.own_last_seen_at, c.last_seen_at) < %(ends)s
    order by c.project_id, c.id
    for no key update of c
), kept as (
    update case_stats c set sample =
    \include sample
    from due d
    cross join lateral (
        select * from {table} e
        where e.project_id = d.project_id and e.case_id = d.id
        order by e.received_at desc, e.id desc limit 1
        for key share) n
    where c.project_id = d.project_id and c.id = d.id
)
select s.project_id, s.case_id, s.n from step s order by s.n desc limit 1

-- part sample --
-- What stays of the last error `n` of a case.
jsonb_build_object('id', n.id, 'message', n.message, 'level', n.level, 'environment', n.environment,
    'release', n.release, 'user_id', n.user_id, 'tags', n.tags, 'received_at', n.received_at,
    'occurred_at', coalesce(n.occurred_at, n.received_at), 'adjusted', coalesce(n.adjusted, '[]'),
    'dsn', case when n.public then 'public' else 'server' end)

-- holders --
-- Some of the projects that have rows in a partition, those after one.
with recursive step(project_id, n) as (
    (select e.project_id, 1 from {table} e where e.project_id > %(after)s order by e.project_id limit 1)
    union all
    select x.project_id, s.n + 1
    from step s
    cross join lateral (
        select e.project_id from {table} e where e.project_id > s.project_id order by e.project_id limit 1) x
    where s.n < %(most)s
)
select s.project_id from step s order by s.n

-- delete_names --
-- Delete what is counted by name of the oldest day of a project, if it is before a time; returns how many days went.
with gone as (
    delete from event_days d
    where d.project_id = %(project_id)s and d.day = (
        select min(o.day) from event_days o where o.project_id = %(project_id)s and o.day < %(until)s)
    returning d.day
), names as (
    delete from event_name_days n using gone g where n.project_id = %(project_id)s and n.day = g.day
), keys as (
    delete from event_key_days k using gone g where k.project_id = %(project_id)s and k.day = g.day
)
select count(*) from gone

-- delete_erased --
-- Delete some of the oldest that is known of erased records of a project; returns how many.
with gone as (
    delete from erased_records e where e.ctid = any(array(
        select d.ctid from erased_records d
        where d.project_id = %(project_id)s and d.received_at < %(until)s
        order by d.received_at, d.id limit %(most)s))
    returning 1
)
select count(*) from gone

-- delete_feedback --
-- Delete some of the oldest reports of a project; returns how many.
with gone as (
    delete from feedback_reports f where f.ctid = any(array(
        select d.ctid from feedback_reports d
        where d.project_id = %(project_id)s and d.received_at < %(until)s
        order by d.received_at, d.id limit %(most)s))
    returning 1
)
select count(*) from gone

-- delete_provided --
-- Delete some of the oldest counts of a project's provider; returns how many.
with gone as (
    delete from provider_counts e where e.ctid = any(array(
        select d.ctid from provider_counts d
        where d.project_id = %(project_id)s and d.minute < %(until)s
        order by d.minute limit %(most)s))
    returning 1
)
select count(*) from gone

-- forget_people --
-- Forget some of the people of a project who were told of before a time and have no records; the last name looked at.
select forget_people(project => %(project_id)s, until => %(until)s, after => %(after)s, most => %(most)s)

-- delete_errors --
-- Delete some of the oldest errors of a project in a partition, and keep samples of their cases; returns how many went,
-- and when the last of them was received. Rows go oldest first, so the last sample that is taken is of the last error.
with gone as (
    \include doomed
    returning e.project_id, e.received_at, e.occurred_at, e.id, e.case_id, e.message, e.level, e.environment, e.release,
        e.user_id, e.tags, e.adjusted, e.public
), newest as (
    select distinct on (g.case_id) g.* from gone g where g.case_id is not null
    order by g.case_id, g.received_at desc, g.id desc
), kept as (
    update case_stats c set sample =
    \include sample
    from newest n
    where c.project_id = n.project_id and c.id = n.case_id and (
        c.sample is null or n.received_at >= coalesce(c.own_last_seen_at, c.last_seen_at))
)
select count(*), coalesce(max(g.received_at), 0) from gone g

-- part doomed --
-- Delete some of the oldest rows of a project in a partition.
delete from {table} e where e.ctid = any(array(
    select d.ctid from {table} d
    where d.project_id = %(project_id)s and d.received_at >= %(after)s and d.received_at < %(until)s
    order by d.received_at, d.id limit %(most)s))

-- delete_analytics --
-- Delete some of the oldest analytics events of a project in a partition; returns how many, and when the last of them
-- was received.
with gone as (
    \include doomed
    returning e.received_at
)
select count(*), coalesce(max(g.received_at), 0) from gone g

-- purge_usage_days --
-- Delete the usage of days that are shown no longer.
delete from usage_days where day < %(day)s

-- purge_usage_deploys --
-- Delete the deploys of days whose usage is shown no longer.
delete from usage_deploys where day < %(day)s

-- purge_flushers --
-- Delete what is known of processes that flush no more.
delete from ingest_flushers where seen_at < %(before)s

-- purge_kinds --
-- Delete what is counted of kinds that are not kept, of days that are shown no longer.
delete from kinds_not_kept where day < %(day)s

-- note_kinds --
-- Add to what was not kept of projects, by kind and day. A project that is being deleted gets no more rows: it is held,
-- so that its fence comes before this or after it.
with clock as (select service_seconds() as now)
insert into kinds_not_kept as k (project_id, day, protocol, kind, outcome, amount, last_at)
select p.project_id, clock.now - clock.now %% 86400, u.protocol, u.kind, u.outcome, u.amount, clock.now
from clock cross join unnest(%(project_ids)s::text[], %(protocols)s::text[], %(kinds)s::text[], %(outcomes)s::text[],
    %(amounts)s::bigint[]) u(project_id, protocol, kind, outcome, amount)
join projects p on p.project_id = u.project_id and p.id = u.project_id and p.status = 'active'
order by p.project_id, u.protocol, u.kind, u.outcome
for share of p
on conflict (project_id, day, protocol, kind, outcome) do update set
    amount = k.amount + excluded.amount,
    last_at = greatest(k.last_at, excluded.last_at)

-- check_cases --
-- Cases whose counters do not agree with the errors that are kept. A case has a sample once, and only once, retention
-- has deleted an error of it. Errors and people that were erased are counted, too. When its errors happened, it says
-- from the first on that came since that is kept: before, the flush that opened it may have come a moment late.
with counted as (
    select e.project_id, e.case_id as id, count(*) as errors, max(e.received_at) as latest,
        min(coalesce(e.occurred_at, e.received_at)) as first_at,
        max(coalesce(e.occurred_at, e.received_at)) as last_at,
        count(*) filter (where e.public) as public_errors,
        coalesce(bool_or(e.marker_hash is null) filter (where not e.public), false) as server_unmarked,
        coalesce(array_agg(distinct e.environment) filter (where not e.public), '{}') as server_environments,
        bool_or(e.marker_hash is null) as unmarked, array_agg(distinct e.environment) as environments,
        coalesce(array_agg(distinct e.release) filter (where e.release is not null), '{}') as releases
    from log_events e where e.case_id is not null group by 1, 2
), people as (
    select u.project_id, u.case_id as id, count(*) as people, sum(u.error_count) as errors
    from case_users u group by 1, 2
)
select case when s.id is null then 'missing' when c.id is null then 'extra' else 'different' end, project_id, id
from cases c
full join (
    -- Of a case that the provider counts as well, what came by DSN.
    select t.project_id, t.id, t.sample, t.erased_errors, t.erased_people, t.environments, t.releases, t.public_count,
        t.first_occurred_at, t.last_occurred_at, t.server_unmarked, t.server_environments,
        t.own_count is null as alone, coalesce(t.own_count, t.event_count) as event_count,
        coalesce(t.own_people, t.users_affected) as users_affected,
        case when t.own_count is null then t.first_seen_at else t.own_first_seen_at end as first_seen_at,
        case when t.own_count is null then t.last_seen_at else t.own_last_seen_at end as last_seen_at,
        coalesce(t.own_unmarked, t.unmarked) as unmarked
    from case_stats t
) s using (project_id, id)
left join counted k using (project_id, id)
left join people p using (project_id, id)
where project_id in (
    \include active
) and (
    c.id is null or s.id is null
    or case when s.sample is null then s.event_count <> coalesce(k.errors, 0) + s.erased_errors
        else s.event_count <= coalesce(k.errors, 0) + s.erased_errors end
    or s.users_affected <> coalesce(p.people, 0) + s.erased_people
    or s.event_count < coalesce(p.errors, 0)
    or s.last_seen_at < k.latest or s.erased_errors = 0 and s.last_seen_at <> k.latest
    or s.first_seen_at > s.last_seen_at
    or s.first_occurred_at > k.first_at + 60 or s.last_occurred_at < k.last_at
    or s.first_occurred_at > s.last_occurred_at
    or k.unmarked and not s.unmarked
    or not k.environments <@ s.environments and cardinality(s.environments) < 100
    or not k.releases <@ s.releases and cardinality(s.releases) < 100
    or s.public_count < coalesce(k.public_errors, 0)
    or s.public_count > s.event_count
    or (s.public_count > 0) is distinct from (s.server_unmarked is not null)
    or (s.public_count > 0) is distinct from (s.server_environments is not null)
    or k.server_unmarked and not s.server_unmarked
    or not k.server_environments <@ s.server_environments and cardinality(s.server_environments) < 100
    or s.sample is null and s.erased_errors = 0 and (
        s.public_count <> k.public_errors or s.unmarked <> k.unmarked
        or s.alone and (s.server_unmarked <> k.server_unmarked
            or not s.server_environments <@ k.server_environments
            or not s.environments <@ k.environments or not s.releases <@ k.releases)
        or s.event_count > 0 and not exists (
            select from log_events e
            where e.project_id = s.project_id and e.case_id = s.id and e.received_at = s.first_seen_at)))
order by 2, 3

-- part active --
-- The projects that are not being deleted.
select p.project_id from projects p where p.status = 'active' and p.id = p.project_id

-- check_people --
-- People of cases whose counters do not agree with the errors that are kept.
with counted as (
    select e.project_id, e.case_id, e.user_id, count(*) as errors
    from log_events e where e.case_id is not null and e.user_id is not null group by 1, 2, 3
)
select case when u.user_id is null then 'missing' else 'different' end, project_id, case_id || ' ' || user_id
from case_users u
full join counted k using (project_id, case_id, user_id)
join (select project_id, id as case_id, sample from case_stats) s using (project_id, case_id)
where project_id in (
    \include active
) and (
    coalesce(u.error_count, 0) < coalesce(k.errors, 0)
    or s.sample is null and u.error_count is distinct from k.errors)
order by 2, 3

-- check_rates --
-- Hours whose count of new cases does not agree with the cases. A flush that comes late counts into the hour that
-- another has begun. Before there were counts, none was kept, and a release of that time that ran on beside this one
-- opened cases uncounted: for a day, nobody can tell. The same holds for the count of cases by the public DSN. A case
-- that has only errors by it was opened by one; a case without any was not. Those of an import count in no hour.
with since as (
    select extract(epoch from m.applied_at) + k.offset_seconds + 86400 as moment
    from schema_migrations m, service_clock k where m.name = '0160_new_cases'
), public_since as (
    select extract(epoch from m.applied_at) + k.offset_seconds + 86400 as moment
    from schema_migrations m, service_clock k where m.name = '0830_public_case_rates'
)
select 'different', r.project_id, to_char(to_timestamp(r.hour) at time zone 'UTC', 'YYYY-MM-DD HH24:MI')
from case_rates r
cross join lateral (
    select count(*) filter (where c.opened_at >= r.hour and c.opened_at > s.moment) as least, count(*) as most
    from cases c, since s
    where c.project_id = r.project_id and not starts_with(c.fingerprint, 'overflow-') and c.imported is null
        and c.opened_at >= r.hour - 60 and c.opened_at < r.hour + 3600) n
cross join lateral (
    select count(*) filter (where c.opened_at >= r.hour and s.public_count = s.event_count
            and s.own_count is null) as least,
        count(*) filter (where s.public_count > 0) as most
    from cases c join case_stats s on s.project_id = c.project_id and s.id = c.id
    where c.project_id = r.project_id and not starts_with(c.fingerprint, 'overflow-') and c.imported is null
        and s.event_count > 0 and c.opened_at >= r.hour - 60 and c.opened_at < r.hour + 3600) p
cross join public_since b
where r.project_id in (
    \include active
) and (r.opened < n.least or r.opened > n.most
    or r.hour > b.moment and (r.opened_public < p.least or r.opened_public > least(p.most, r.opened)))
order by 2

-- check_usage --
-- Days whose counted usage does not agree with the rows that are kept or were erased, of as many days as usage is shown
-- for.
with found as (
    select project_id, day, sum(errors) as errors, sum(analytics) as analytics, max(latest) as latest
    from (
        select project_id, received_at - received_at %% 86400 as day, count(*) as errors, 0 as analytics,
            max(received_at) as latest
        from log_events where not starts_with(coalesce(marker_hash, ''), 'import:') group by 1, 2
        union all
        select project_id, received_at - received_at %% 86400, 0, count(*), max(received_at)
        from analytics_events group by 1, 2
        union all
        select project_id, received_at - received_at %% 86400, count(*) filter (where event is null), count(event),
            max(received_at)
        from erased_records group by 1, 2
    ) r
    group by 1, 2
), oldest as (
    select project_id, min(day) filter (where errors > 0) as errors, min(day) filter (where analytics > 0) as analytics
    from found group by 1
), counted as (
    select project_id, day, sum(errors) as errors, sum(analytics) as analytics, sum(suppressed) as suppressed,
        max(last_received_at) as latest
    from usage_days group by 1, 2
)
select case when c.day is null then 'missing' else 'different' end, project_id,
    to_char(to_timestamp(day) at time zone 'UTC', 'YYYY-MM-DD')
from counted c full join found f using (project_id, day) left join oldest o using (project_id)
where project_id in (
    \include active
) and day >= (select service_today()) - %(days)s * 86400 and (
    coalesce(c.errors, 0) < coalesce(f.errors, 0) or coalesce(c.analytics, 0) < coalesce(f.analytics, 0)
    or c.latest < f.latest or c.suppressed > c.errors
    or (day > o.errors or day >= (select service_today()) - 86400) and c.errors <> coalesce(f.errors, 0)
    or (day > o.analytics or day >= (select service_today()) - 86400) and c.analytics <> coalesce(f.analytics, 0))
order by 2, 3

-- check_deploys --
-- Deploys that are counted otherwise than they are kept, of as many days as usage is shown for.
select case when u.id is null then 'missing' when d.id is null then 'extra' else 'different' end, project_id, id
from deploys d full join usage_deploys u using (project_id, id)
where project_id in (
    \include active
) and (
    d.id is null or u.day <> d.recorded_at - d.recorded_at %% 86400
    or u.id is null and d.recorded_at >= (select service_today()) - (%(days)s - 1) * 86400)
order by 2, 3

-- check_event_days --
-- Days whose counts of events by name do not add up to the events that are kept or were erased, or to the rows of the
-- names and keys below them. Days before a project's first one here were not counted, or are kept no longer.
with found as (
    select e.project_id, e.received_at - e.received_at %% 86400 as day, count(*) as row_count
    from (
        select a.project_id, a.received_at from analytics_events a
        union all select r.project_id, r.received_at from erased_records r where r.event is not null
    ) e
    group by 1, 2
), names as (
    select n.project_id, n.day, count(*) as names, sum(n.row_count) as row_count from event_name_days n group by 1, 2
), keys as (
    select k.project_id, k.day, count(*) as keys from event_key_days k group by 1, 2
), oldest as (
    select d.project_id, min(d.day) as since from event_days d group by 1
)
select case when d.names is null then 'missing' else 'different' end, project_id,
    to_char(to_timestamp(day) at time zone 'UTC', 'YYYY-MM-DD')
from event_days d
full join found f using (project_id, day)
full join names n using (project_id, day)
full join keys k using (project_id, day)
left join oldest o using (project_id)
where project_id in (
    \include active
) and (
    d.names is null and (day > o.since or n.names > 0 or k.keys > 0)
    or d.names <> coalesce(n.names, 0) or d.keys <> coalesce(k.keys, 0) or d.names > 1000 or d.keys > 5000
    or d.other_rows > 0 and d.names < 1000
    or coalesce(n.row_count, 0) + d.other_rows > coalesce(f.row_count, 0)
    or d.whole and coalesce(n.row_count, 0) + d.other_rows < coalesce(f.row_count, 0))
order by 2, 3

-- check_event_names --
-- Names of events that are counted otherwise than their events are kept, on days that are counted. On a day that was
-- not counted from its beginning, at most as many are counted as are kept.
with found as (
    select e.project_id, e.received_at - e.received_at %% 86400 as day, e.event, count(*) as row_count,
        min(e.received_at) as first_at, max(e.received_at) as last_at
    from (
        select a.project_id, a.received_at, a.event from analytics_events a
        union all select r.project_id, r.received_at, r.event from erased_records r where r.event is not null
    ) e
    group by 1, 2, 3
)
select case when n.row_count is null then 'missing' when f.row_count is null then 'extra' else 'different' end,
    project_id, to_char(to_timestamp(day) at time zone 'UTC', 'YYYY-MM-DD') || ' ' || event
from event_name_days n
full join found f using (project_id, day, event)
join event_days d using (project_id, day)
where project_id in (
    \include active
) and (
    n.row_count is null and d.whole and d.other_rows = 0
    or n.row_count is not null and f.row_count is null
    or n.row_count > f.row_count or n.last_at <> f.last_at or n.first_at < f.first_at
    or d.whole and (n.row_count < f.row_count or n.first_at > f.first_at))
order by 2, 3

-- check_event_keys --
-- Keys of properties that are counted otherwise than the events are kept that have them, on days that are counted; and
-- such days whose properties do not add up. On a day that was not counted from its beginning, at most as many are
-- counted as are kept. Nobody knows the keys of what was erased: such days are passed over.
with found as (
    select e.project_id, e.received_at - e.received_at %% 86400 as day, e.event, e.key, count(*) as row_count,
        bit_or(case e.type when 'array' then 1 when 'boolean' then 2 when 'null' then 4 when 'number' then 8
            when 'object' then 16 else 32 end) as types
    from event_properties e group by 1, 2, 3, 4
), compared as (
    select project_id, day, event, key, k.row_count as counted, k.types, f.row_count as found, f.types as types_found,
        d.whole, d.other_values
    from event_key_days k
    full join found f using (project_id, day, event, key)
    join event_days d using (project_id, day)
    where (project_id, day) not in (
        select r.project_id, r.received_at - r.received_at %% 86400 from erased_records r where r.event is not null)
), different as (
    select case when c.counted is null then 'missing' when c.found is null then 'extra' else 'different' end as what,
        c.project_id, c.day, ' ' || c.event || ' ' || c.key as name
    from compared c
    where c.counted is null and c.whole and c.other_values = 0
        or c.counted is not null and c.found is null
        or c.counted > c.found or c.types & ~c.types_found <> 0
        or c.whole and (c.counted < c.found or c.types <> c.types_found)
    union all
    select 'different', c.project_id, c.day, ''
    from compared c
    where c.whole
    group by c.project_id, c.day, c.other_values
    having coalesce(sum(c.counted), 0) + c.other_values <> coalesce(sum(c.found), 0)
)
select d.what, d.project_id, to_char(to_timestamp(d.day) at time zone 'UTC', 'YYYY-MM-DD') || d.name
from different d
where d.project_id in (
    \include active
)
order by 2, 3

-- share_gate --
-- Hold a gate beside others to the end of the transaction: what closes the project or erases a person waits for it.
select pg_advisory_xact_lock_shared(%(gate)s::bigint)

-- note_feedback --
-- Store what somebody wrote, and find the error that it is about. A repeat is stored already. A project that is being
-- deleted gets no more rows: the caller holds its gate. Returns whether the project takes it.
with clock as (select service_seconds() as now), open as (
    select p.project_id from projects p
    where p.project_id = %(project_id)s and p.id = %(project_id)s and p.status = 'active'
), stored as (
    insert into feedback_reports (project_id, received_at, id, sent_key, source, message, name, email, url, user_id,
        release, environment, adjusted, public, event_key, error_id, case_id, error_user)
    select o.project_id, clock.now, %(id)s, %(sent_key)s, %(source)s, %(message)s, %(name)s, %(email)s, %(url)s,
        %(user_id)s, %(release)s, %(environment)s, %(adjusted)s::jsonb, %(public)s, %(event_key)s, e.error_id,
        e.case_id, e.user_id
    from clock cross join open o
    left join lateral error_of_key(project => o.project_id, sent_id => %(event_key)s) e on true
    on conflict (project_id, sent_key) do nothing
)
select exists (select from open)

-- settle_feedback --
-- Find the errors of reports that came before them, in all projects; returns how many found theirs.
select settle_feedback(project => null, seconds => %(seconds)s, most => %(most)s)

-- connected_projects --
-- Every active project with a connected provider, those first whose exceptions were read the longest ago.
select c.project_id
from (select distinct t.project_id from provider_connections t where t.status = 'connected') c
join projects p on p.project_id = c.project_id and p.id = c.project_id and p.status = 'active'
left join provider_looks l on l.project_id = c.project_id and l.id = c.project_id
order by l.read_to nulls first, c.project_id

-- disconnected_projects --
-- Every active project whose provider was read, and is no longer connected.
select l.project_id
from provider_looks l
join projects p on p.project_id = l.project_id and p.id = l.project_id and p.status = 'active'
where not exists (
    select from provider_connections t where t.project_id = l.project_id and t.status = 'connected')
order by l.project_id

-- provider_look --
-- Where looks at a project's provider have come to, and the uuids of the overlap in hex.
select row_to_json(l)::text, coalesce((
    select string_agg(encode(u.uuids, 'hex'), '') from provider_uuids u where u.project_id = l.project_id), '')
from provider_looks l
where l.project_id = %(project_id)s and l.id = %(project_id)s

-- known_groups --
-- Those of some groups of a project's provider that were met before, with the fingerprints of their errors.
select g.id, g.offered::text
from provider_groups g
where g.project_id = %(project_id)s and g.id = any(%(ids)s)
