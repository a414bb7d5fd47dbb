"""Queries about webhooks."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from projections.webhooks.webhook import WebhookRow, WebhookTargetRow
from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.store import EventStore

LOOKED_AT = 2_000
"""Deliveries that one page looks through for those of a status."""

_OF_PROJECT = load_sql("webhooks", "of_project")
_DELIVERIES = load_sql("webhooks", "deliveries")
_RECENT = load_sql("webhooks", "recent_deliveries")
_DELIVERY = load_sql("webhooks", "delivery")


class WebhookFacts(NamedTuple):
    """The outcome of the latest attempt. `stage` is how far a webhook has come. Times in epoch seconds."""

    stage: str = "registered"
    last_status: int | None = None
    last_error: str | None = None
    last_delivered_at: int | None = None


class StandingWebhook(NamedTuple):
    """A webhook with the facts beside it."""

    row: WebhookRow
    target: WebhookTargetRow
    facts: WebhookFacts


async def webhooks_of(store: EventStore, project_id: str) -> list[StandingWebhook]:
    """Read all webhooks of a project, newest first."""
    return await _read(store, project_id, None)


async def find_webhook(store: EventStore, project_id: str, webhook_id: str) -> StandingWebhook | None:
    """Read one webhook of a project."""
    found = await _read(store, project_id, webhook_id)
    return found[0] if found else None


class LoggedDelivery(NamedTuple):
    """A delivery as the log shows it. Times in epoch seconds."""

    id: str
    event: str
    position: int
    subject_id: str
    status: str
    attempts: int
    last_status: int | None
    last_error: str | None
    next_attempt_at: int | None
    body_sha256: str | None


async def deliveries_of(
    store: EventStore, project_id: str, webhook_id: str, after: int, status: str | None, limit: int
) -> tuple[list[LoggedDelivery], int | None]:
    """Read deliveries after a position, ascending, and the position to go on from, None at the end."""
    rows = await store.fetch(
        _DELIVERIES,
        project_id=project_id,
        webhook_id=webhook_id,
        after=after,
        status=status,
        limit=limit,
        looked=LOOKED_AT,
    )
    found = [LoggedDelivery(*row[1:]) for row in rows if row[1] is not None]
    return found, found[-1].position if len(found) == limit else rows[0][0]


async def recent_deliveries(store: EventStore, project_id: str, webhook_id: str, limit: int) -> list[LoggedDelivery]:
    """Read the newest deliveries of a webhook."""
    rows = await store.fetch(_RECENT, project_id=project_id, webhook_id=webhook_id, limit=limit)
    return [LoggedDelivery(*row) for row in rows]


async def find_delivery(store: EventStore, project_id: str, webhook_id: str, delivery: str) -> LoggedDelivery | None:
    """Read one delivery of a webhook."""
    rows = await store.fetch(_DELIVERY, project_id=project_id, webhook_id=webhook_id, id=delivery)
    return LoggedDelivery(*rows[0]) if rows else None


async def _read(store: EventStore, project_id: str, webhook_id: str | None) -> list[StandingWebhook]:
    rows = await store.fetch(_OF_PROJECT, project_id=project_id, id=webhook_id)
    return [
        StandingWebhook(
            msgspec.json.decode(row, type=WebhookRow),
            msgspec.json.decode(target, type=WebhookTargetRow),
            WebhookFacts() if stage is None else WebhookFacts(stage, *facts),
        )
        for row, target, stage, *facts in rows
    ]
