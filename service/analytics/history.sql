-- errors_by_minute --
-- How many errors of a case came in each minute of a period and in an environment, counted as recurrences are, of any
-- release; and whether one came before the period.
select e.minute, greatest(sum(e.own), sum(e.provided))::bigint, exists (
    select from log_events b
    where b.project_id = %(project_id)s and b.case_id = %(case_id)s and b.received_at < %(since)s
        and b.level in ('error', 'fatal') and b.environment = %(environment)s
        and not starts_with(coalesce(b.marker_hash, ''), 'import:')
    union all
    select from provider_counts b
    where b.project_id = %(project_id)s and b.case_id = %(case_id)s and b.minute < %(since)s - 60
        and b.environment = %(environment)s)
from (
    select l.received_at / 60 as minute, 1 as own, 0 as provided from log_events l
    where l.project_id = %(project_id)s and l.case_id = %(case_id)s
        and l.received_at >= %(since)s and l.received_at < %(until)s
        and l.level in ('error', 'fatal') and l.environment = %(environment)s
        and not starts_with(coalesce(l.marker_hash, ''), 'import:')
        and (not l.public or accepts_public(project => %(project_id)s))
    union all
    select r.received_at / 60, 1, 0 from erased_records r
    where r.project_id = %(project_id)s and r.case_id = %(case_id)s
        and r.received_at >= %(since)s and r.received_at < %(until)s
        and r.level in ('error', 'fatal') and r.environment = %(environment)s
        and (not r.public or accepts_public(project => %(project_id)s))
    union all
    select c.minute / 60, 0, c.errors from provider_counts c
    where c.project_id = %(project_id)s and c.case_id = %(case_id)s
        and c.minute >= %(since)s and c.minute < %(until)s and c.environment = %(environment)s) e
group by e.minute
order by e.minute

-- traffic_by_hour --
-- How many events of a name came in each hour of a period, in an environment, and without one if `unnamed`. Those
-- by the public DSN count if `public`.
select (t.received_at - %(since)s - 1) / 3600, count(*)
from (
    select e.received_at, e.public,
        \include analytics.named_environment
        as environment
    from analytics_events e
    where e.project_id = %(project_id)s and e.event = %(event)s
        and e.received_at > %(since)s and e.received_at <= %(until)s
    union all
    select r.received_at, r.public, r.environment from erased_records r
    where r.project_id = %(project_id)s and r.event = %(event)s
        and r.received_at > %(since)s and r.received_at <= %(until)s) t
where (t.environment = %(environment)s or t.environment is null and %(unnamed)s) and (not t.public or %(public)s)
group by 1
