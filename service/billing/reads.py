"""What a project and its account have sent: counted with each record, read here (R-ING-12, R-BILL-01, G-070, G-071)."""

from __future__ import annotations

from typing import NamedTuple

from service.eventstore.store import EventStore

_ACCOUNT = "select p->>3 from json_array_elements(ingest_projects(wanted => array[%s])) p"
_DAYS = """
select day, sum(errors)::bigint, sum(analytics)::bigint, sum(deploys)::bigint from (
    select day, errors, analytics, 0 as deploys from usage_days where {0} = %s and day between %s and %s
    union all
    select day, 0, 0, 1 from usage_deploys where {0} = %s and day between %s and %s
) d group by day order by day
"""
_LAST_EVENT = "select max(last_received_at) from usage_days where project_id = %s"
_SINCE = """
select (select count(*) from log_events where project_id = %s and received_at > %s)
     + (select count(*) from analytics_events where project_id = %s and received_at > %s)
"""


class DayUsage(NamedTuple):
    """Accepted records of a UTC day; `day` is the epoch of its midnight. `errors` counts every log event."""

    day: int
    errors: int
    analytics: int
    deploys: int


async def account_of(store: EventStore, project_id: str) -> str:
    """Find the account that pays for a project: its first owner. Empty for a project that is gone."""
    rows = await store.fetch(_ACCOUNT, project_id)
    return str(rows[0][0]) if rows else ""


async def account_usage(store: EventStore, account_id: str, first_day: int, last_day: int) -> list[DayUsage]:
    """Read what an account's projects have sent, deleted ones included; days without records are left out."""
    return await _usage(store, "account_id", account_id, first_day, last_day)


async def project_usage(store: EventStore, project_id: str, first_day: int, last_day: int) -> list[DayUsage]:
    """Read what a project has sent; days without records are left out."""
    return await _usage(store, "project_id", project_id, first_day, last_day)


async def _usage(store: EventStore, column: str, id: str, first_day: int, last_day: int) -> list[DayUsage]:  # noqa: A002
    span = (id, first_day, last_day)
    return [DayUsage(*row) for row in await store.fetch(_DAYS.format(column), *span, *span)]


async def last_event_received_at(store: EventStore, project_id: str) -> int | None:
    """Tell when the project's last log or analytics event was received, in epoch seconds."""
    [[at]] = await store.fetch(_LAST_EVENT, project_id)
    return None if at is None else int(at)


async def events_since(store: EventStore, project_id: str, since: int) -> int:
    """Count the log and analytics events received after a time in epoch seconds."""
    [[count]] = await store.fetch(_SINCE, project_id, since, project_id, since)
    return int(count)
