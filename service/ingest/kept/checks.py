"""Whether what is counted agrees with the rows that were counted. Reads only.

Decisions read these counters, no event holds them, and no projection folds them. Each is written in the transaction of
its rows, so that one snapshot shows both. Retention deletes rows and keeps counters, oldest days first and never
yesterday's: where it may have been, a counter has to be at least what is left. Projects that are being deleted are
passed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import starmap
from typing import Any

import psycopg

from service.eventstore.connect.clock import DAY, TODAY
from service.eventstore.history.audit import Difference, Report, count_rows, unreported
from service.ingest.kept.retention import USAGE_DAYS

Connection = psycopg.Connection[Any]

_ACTIVE = "(select p.project_id from projects p where p.status = 'active' and p.id = p.project_id)"

# A case has a sample once, and only once, retention has deleted an error of it.
_CASES = f"""
with counted as (
    select e.project_id, e.case_id as id, count(*) as errors, max(e.received_at) as latest,
        bool_or(e.marker_hash is null) as unmarked, array_agg(distinct e.environment) as environments,
        coalesce(array_agg(distinct e.release) filter (where e.release is not null), '{{}}') as releases
    from log_events e where e.case_id is not null group by 1, 2
), people as (
    select u.project_id, u.case_id as id, count(*) as people, sum(u.error_count) as errors
    from case_users u group by 1, 2
)
select case when s.id is null then 'missing' when c.id is null then 'extra' else 'different' end, project_id, id
from cases c full join case_stats s using (project_id, id) left join counted k using (project_id, id)
left join people p using (project_id, id)
where project_id in {_ACTIVE} and (
    c.id is null or s.id is null
    or case when s.sample is null then s.event_count <> coalesce(k.errors, 0)
        else s.event_count <= coalesce(k.errors, 0) end
    or s.users_affected <> coalesce(p.people, 0)
    or s.event_count < coalesce(p.errors, 0)
    or s.last_seen_at <> k.latest
    or s.first_seen_at > s.last_seen_at
    or k.unmarked and not s.unmarked
    or not k.environments <@ s.environments and cardinality(s.environments) < 100
    or not k.releases <@ s.releases and cardinality(s.releases) < 100
    or s.sample is null and (
        s.unmarked <> k.unmarked or not s.environments <@ k.environments or not s.releases <@ k.releases
        or not exists (select from log_events e where e.project_id = s.project_id and e.case_id = s.id
            and e.received_at = s.first_seen_at)))
order by 2, 3
"""  # noqa: S608 - constants only
_PEOPLE = f"""
with counted as (
    select e.project_id, e.case_id, e.user_id, count(*) as errors from log_events e
    where e.case_id is not null and e.user_id is not null group by 1, 2, 3
)
select case when u.user_id is null then 'missing' else 'different' end, project_id, case_id || ' ' || user_id
from case_users u full join counted k using (project_id, case_id, user_id)
join (select project_id, id as case_id, sample from case_stats) s using (project_id, case_id)
where project_id in {_ACTIVE} and (
    coalesce(u.error_count, 0) < coalesce(k.errors, 0)
    or s.sample is null and u.error_count is distinct from k.errors)
order by 2, 3
"""  # noqa: S608 - constants only
_USAGE = f"""
with found as (
    select project_id, day, sum(errors) as errors, sum(analytics) as analytics, max(latest) as latest from (
        select project_id, received_at - received_at % {DAY} as day, count(*) as errors, 0 as analytics,
            max(received_at) as latest from log_events group by 1, 2
        union all
        select project_id, received_at - received_at % {DAY}, 0, count(*), max(received_at)
        from analytics_events group by 1, 2) r
    group by 1, 2
), oldest as (
    select project_id, min(day) filter (where errors > 0) as errors, min(day) filter (where analytics > 0) as analytics
    from found group by 1
), counted as (
    select project_id, day, sum(errors) as errors, sum(analytics) as analytics, sum(suppressed) as suppressed,
        max(last_received_at) as latest from usage_days group by 1, 2
)
select case when c.day is null then 'missing' else 'different' end, project_id,
    to_char(to_timestamp(day) at time zone 'UTC', 'YYYY-MM-DD')
from counted c full join found f using (project_id, day) left join oldest o using (project_id)
where project_id in {_ACTIVE} and day >= {TODAY} - {USAGE_DAYS * DAY} and (
    coalesce(c.errors, 0) < coalesce(f.errors, 0) or coalesce(c.analytics, 0) < coalesce(f.analytics, 0)
    or c.latest < f.latest or c.suppressed > c.errors
    or (day > o.errors or day >= {TODAY} - {DAY}) and c.errors <> coalesce(f.errors, 0)
    or (day > o.analytics or day >= {TODAY} - {DAY}) and c.analytics <> coalesce(f.analytics, 0))
order by 2, 3
"""  # noqa: S608 - constants only
# A flush that comes late counts into the hour that another has begun. Before there were counts, none was kept, and a
# release of that time that ran on beside this one opened cases uncounted: for a day, nobody can tell.
_RATES = f"""
with since as (
    select extract(epoch from m.applied_at) + k.offset_seconds + {DAY} as moment
    from schema_migrations m, service_clock k where m.name = '0160_new_cases'
)
select 'different', r.project_id, to_char(to_timestamp(r.hour) at time zone 'UTC', 'YYYY-MM-DD HH24:MI')
from case_rates r cross join lateral (
    select count(*) filter (where c.opened_at >= r.hour and c.opened_at > s.moment) as least, count(*) as most
    from cases c, since s where c.project_id = r.project_id and not starts_with(c.fingerprint, 'overflow-')
        and c.opened_at >= r.hour - 60 and c.opened_at < r.hour + 3600) n
where r.project_id in {_ACTIVE} and (r.opened < n.least or r.opened > n.most)
order by 2
"""  # noqa: S608 - constants only
_DEPLOYS = f"""
select case when u.id is null then 'missing' when d.id is null then 'extra' else 'different' end, project_id, id
from deploys d full join usage_deploys u using (project_id, id)
where project_id in {_ACTIVE} and (
    d.id is null or u.day <> d.recorded_at - d.recorded_at % {DAY}
    or u.id is null and d.recorded_at >= {TODAY} - {(USAGE_DAYS - 1) * DAY})
order by 2, 3
"""  # noqa: S608 - constants only

COUNTERS = {
    "case_stats": _CASES,
    "case_users": _PEOPLE,
    "case_rates": _RATES,
    "usage_days": _USAGE,
    "usage_deploys": _DEPLOYS,
}
"""The tables of counters by name, each with the query that finds the rows which do not agree."""


def check_counters(connection: Connection, table: str, report: Report = unreported) -> Iterator[Difference]:
    """Compare the counters of a table with the rows that they count, in one statement; yields those that differ.

    Each side is read once, whatever the server knows of their sizes: by stale statistics a loop within a loop looks
    cheap, and takes minutes for what a hash takes a second for.
    """
    with connection.transaction():
        connection.execute("set local enable_nestloop = off")
        rows = count_rows(connection, table)
        report(0, rows)
        found = connection.execute(COUNTERS[table].encode()).fetchall()
        report(rows, rows)
    yield from starmap(Difference, found)
