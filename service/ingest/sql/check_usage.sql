-- Days whose counted usage does not agree with the rows that are kept or were erased, of as many days as usage is shown
-- for.
with found as (
    select project_id, day, sum(errors) as errors, sum(analytics) as analytics, max(latest) as latest
    from (
        select project_id, received_at - received_at %% 86400 as day, count(*) as errors, 0 as analytics,
            max(received_at) as latest
        from log_events group by 1, 2
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
    \ir parts/active.sql
) and day >= (select service_today()) - %(days)s * 86400 and (
    coalesce(c.errors, 0) < coalesce(f.errors, 0) or coalesce(c.analytics, 0) < coalesce(f.analytics, 0)
    or c.latest < f.latest or c.suppressed > c.errors
    or (day > o.errors or day >= (select service_today()) - 86400) and c.errors <> coalesce(f.errors, 0)
    or (day > o.analytics or day >= (select service_today()) - 86400) and c.analytics <> coalesce(f.analytics, 0))
order by 2, 3
