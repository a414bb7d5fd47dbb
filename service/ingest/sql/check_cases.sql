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
    \ir parts/active.sql
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
