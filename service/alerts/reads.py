"""Queries about alerts of a project: all, one, and the due ones."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from projections.alerts.alert import AlertLookRow, AlertRow
from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.store import EventStore

_OF_PROJECT = load_sql("alerts", "of_project")
_DUE = load_sql("alerts", "due")
_NOW = load_sql("alerts", "now")


class StandingAlert(NamedTuple):
    """An alert, its latest look, and the time of the read in epoch seconds."""

    row: AlertRow
    look: AlertLookRow
    now: int


class DueAlerts(NamedTuple):
    """The due alerts of a project, the longest due first, and the account to count them for."""

    rows: list[AlertRow]
    account: str


async def alerts_of(store: EventStore, project_id: str, alert_id: str | None = None) -> list[StandingAlert]:
    """Read the alerts of a project, newest first, or one of them."""
    return [
        StandingAlert(msgspec.json.decode(row, type=AlertRow), msgspec.json.decode(look, type=AlertLookRow), now)
        for row, look, now in await store.fetch(_OF_PROJECT, project_id=project_id, id=alert_id)
    ]


async def due_alerts(store: EventStore, project_id: str) -> DueAlerts:
    """Read the due alerts of a project."""
    found = await store.fetch(_DUE, project_id=project_id)
    rows = [msgspec.json.decode(row, type=AlertRow) for row, _ in found]
    return DueAlerts(rows, found[0][1] if found else "")


async def now_us(store: EventStore) -> int:
    """Return service_now() in microseconds since the epoch."""
    [[found]] = await store.fetch(_NOW)
    return int(found)
