"""Whether a project's data arrives, and what waits for attention in it (R-PROJ-12)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from service.billing.usage import DayUsage, events_since, last_event_received_at, project_usage
from service.eventstore.store import EventStore

HOUR = 3600
_STANDING = (
    "select (select max(d.recorded_at) from deploys d where d.project_id = %s), "
    "(select count(*) from cases c where c.project_id = %s and c.status = 'open')"
)


class Health(NamedTuple):
    """What has arrived in a project until `now`; times in epoch seconds.

    `days` are those of the month that began at `month`, without the days on which nothing came.
    """

    now: int
    month: datetime
    days: list[DayUsage]
    last_event_at: int | None
    last_deploy_at: int | None
    events_last_hour: int
    open_cases: int


async def health_of(store: EventStore, project_id: str) -> Health:
    """Read when data last arrived and how much of it, in the current UTC month and in the last hour."""
    now = await store.now()
    month = datetime.fromtimestamp(now, UTC).replace(day=1, hour=0, minute=0, second=0)
    days = await project_usage(store, project_id, int(month.timestamp()), now)
    [[last_deploy_at, open_cases]] = await store.fetch(_STANDING, project_id, project_id)
    return Health(
        now=now,
        month=month,
        days=days,
        last_event_at=await last_event_received_at(store, project_id),
        last_deploy_at=last_deploy_at,
        events_last_hour=await events_since(store, project_id, now - HOUR),
        open_cases=open_cases,
    )
