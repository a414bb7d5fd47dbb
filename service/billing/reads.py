"""What a project and its account have sent: counted with each record, read here (R-ING-12, R-BILL-01, G-070, G-071)."""

from __future__ import annotations

from typing import NamedTuple

from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.store import EventStore

_ACCOUNT = load_sql("billing", "payer")
_USAGE_OF_ACCOUNT = load_sql("billing", "usage_of_account")
_USAGE_OF_PROJECT = load_sql("billing", "usage_of_project")
_LAST_EVENT = load_sql("billing", "last_event")
_SINCE = load_sql("billing", "events_since")


class DayUsage(NamedTuple):
    """Accepted records of a UTC day; `day` is the epoch of its midnight. `errors` counts every log event."""

    day: int
    errors: int
    analytics: int
    deploys: int


async def account_of(store: EventStore, project_id: str) -> str:
    """Find the account that pays for a project: its first owner. Empty for a project that is gone."""
    rows = await store.fetch(_ACCOUNT, project_id=project_id)
    return str(rows[0][0]) if rows else ""


async def account_usage(store: EventStore, account_id: str, first_day: int, last_day: int) -> list[DayUsage]:
    """Read what an account's projects have sent, deleted ones included; days without records are left out."""
    rows = await store.fetch(_USAGE_OF_ACCOUNT, id=account_id, first=first_day, last=last_day)
    return [DayUsage(*row) for row in rows]


async def project_usage(store: EventStore, project_id: str, first_day: int, last_day: int) -> list[DayUsage]:
    """Read what a project has sent; days without records are left out."""
    rows = await store.fetch(_USAGE_OF_PROJECT, id=project_id, first=first_day, last=last_day)
    return [DayUsage(*row) for row in rows]


async def last_event_received_at(store: EventStore, project_id: str) -> int | None:
    """Tell when the project's last log or analytics event was received, in epoch seconds."""
    [[at]] = await store.fetch(_LAST_EVENT, project_id=project_id)
    return None if at is None else int(at)


async def events_since(store: EventStore, project_id: str, since: int) -> int:
    """Count the log and analytics events received after a time in epoch seconds."""
    [[count]] = await store.fetch(_SINCE, project_id=project_id, since=since)
    return int(count)
