-- Hours whose count of new cases does not agree with the cases. A flush that comes late counts into the hour that
-- another has begun. Before there were counts, none was kept, and a release of that time that ran on beside this one
-- opened cases uncounted: for a day, nobody can tell. The same holds for the count of cases by the public DSN. A case
-- that has only errors by it was opened by one; a case without any was not.
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
    where c.project_id = r.project_id and not starts_with(c.fingerprint, 'overflow-')
        and c.opened_at >= r.hour - 60 and c.opened_at < r.hour + 3600) n
cross join lateral (
    select count(*) filter (where c.opened_at >= r.hour and s.public_count = s.event_count
            and s.own_count is null) as least,
        count(*) filter (where s.public_count > 0) as most
    from cases c join case_stats s on s.project_id = c.project_id and s.id = c.id
    where c.project_id = r.project_id and not starts_with(c.fingerprint, 'overflow-') and s.event_count > 0
        and c.opened_at >= r.hour - 60 and c.opened_at < r.hour + 3600) p
cross join public_since b
where r.project_id in (
    \ir parts/active.sql
) and (r.opened < n.least or r.opened > n.most
    or r.hour > b.moment and (r.opened_public < p.least or r.opened_public > least(p.most, r.opened)))
order by 2
