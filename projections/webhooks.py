"""Webhooks as rows, and the facts beside them. A deleted webhook has no row (G-090, G-159)."""

from typing import Any

import msgspec
from msgspec.structs import replace

from projections.kernel import Row, Table, header, projection
from statemachines import webhooks
from statemachines.kernel.machine import Event, Recorded


class WebhookRow(Row, frozen=True, kw_only=True):
    """A webhook. `status` is active or stopped, with its reason. Times are in epoch seconds."""

    origin: str
    events: list[str]
    secret_prefix: str
    status: str
    stop_reason: str | None = None
    stopped_at: int | None = None
    created_at: int


class WebhookTargetRow(msgspec.Struct, frozen=True, kw_only=True):
    """The sealed address and secrets of a webhook, a fact beside its stream. All are None once it is deleted.

    `former_secret` signs beside `secret` until `former_until` (epoch seconds). The description is a member's text. A
    destination has an address and a description alone.
    """

    project_id: str
    id: str
    url: str | None
    secret: str | None
    former_secret: str | None = None
    former_until: int | None = None
    description: str | None = None


class WebhookCountRow(msgspec.Struct, frozen=True, kw_only=True):
    """How many webhooks a project has, by the project's stream, as it is when it is read: a view, no table."""

    project_id: str
    id: str
    standing: int


def fold_webhook(row: WebhookRow | None, recorded: Recorded) -> WebhookRow | None:
    """Fold an event of a webhook into its row."""
    match recorded.event:
        case webhooks.WebhookRegistered() as event:
            return WebhookRow(
                **header(recorded),
                origin=event.origin,
                events=event.events,
                secret_prefix=event.secret_prefix,
                status="active",
                created_at=event.created_at,
            )
        case webhooks.WebhookDeleted():
            return None
        case _ if row is not None:
            return replace(row, revision=recorded.revision, **_changes(recorded.event))
    return row


def _changes(event: Event) -> dict[str, Any]:
    """The columns that an event changes."""
    match event:
        case webhooks.WebhookChanged():
            return {"origin": event.origin, "events": event.events}
        case webhooks.WebhookSecretRotated():
            return {"secret_prefix": event.secret_prefix}
        case webhooks.WebhookStopped(reason, stopped_at):
            return {"status": "stopped", "stop_reason": reason, "stopped_at": stopped_at}
        case webhooks.WebhookReopened():
            return {"status": "active", "stop_reason": None, "stopped_at": None}
        case _:
            return {}


WEBHOOKS = projection("webhooks", WebhookRow, ("wh",), fold_webhook)
WEBHOOK_TARGETS = Table("webhook_targets", WebhookTargetRow)
WEBHOOK_COUNTS = Table("webhook_counts", WebhookCountRow)
