"""Webhooks on the wire, never with a secret but in the answer that made it (G-090, R-WEB-05)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from projections.webhooks.webhook import WebhookRow
from schemas.projects.health import WebhookHealth
from schemas.webhooks.delivery import DeliveryItem, DeliveryList, DeliveryResent, WebhookReplayed
from schemas.webhooks.webhook import (
    WebhookCreated,
    WebhookDeletedBody,
    WebhookDetail,
    WebhookItem,
    WebhookList,
    WebhookRecord,
    WebhookSecret,
    WebhookStatus,
    WebhookTested,
)
from service.auth.sealing import unseal
from service.webhooks.commands import EndedWebhook, NewWebhook, RotatedSecret
from service.webhooks.reads import LoggedDelivery, StandingWebhook, WebhookFacts
from service.webhooks.sending import WEBHOOK_URL, AttemptOutcome, scope_of

_MEND = "Make the receiver answer with a status of 2xx, then send a test."
_START_FIRST = "The webhook is stopped, so nothing was queued. Start it first."
_REOPEN = "Make the receiver answer with a status of 2xx, then send a test. Its success starts the webhook again."


def created(made: NewWebhook, *, raw: bool) -> WebhookCreated:
    """A new webhook, with its secret if `raw`."""
    return WebhookCreated(
        **_members(made.row, made.url, made.description, WebhookFacts()),
        secret=made.secret if raw else None,
        next_action="Store the secret where deliveries are verified: it is not shown again. Then send a test.",
    )


def listed(project_id: str, webhooks: Sequence[StandingWebhook], key: bytes | None) -> WebhookList:
    """All webhooks of a project."""
    items = [WebhookItem(**_standing(webhook, key)) for webhook in webhooks]
    unhealthy = any(item.status == "unhealthy" for item in items)
    return WebhookList(
        project_id=project_id,
        webhooks=items,
        count=len(items),
        next_action=_MEND if unhealthy else "Register an address to be told of cases and deploys.",
    )


def record(webhook: StandingWebhook, key: bytes | None) -> WebhookRecord:
    """A changed webhook."""
    return WebhookRecord(**_standing(webhook, key), next_action=_advice(webhook))


def detail(webhook: StandingWebhook, recent: Sequence[LoggedDelivery], key: bytes | None) -> WebhookDetail:
    """One webhook with its newest deliveries."""
    deliveries = [DeliveryItem(**_delivery(one)) for one in recent]
    return WebhookDetail(**_standing(webhook, key), recent_deliveries=deliveries, next_action=_advice(webhook))


def rotated(done: RotatedSecret, facts: WebhookFacts, key: bytes | None, *, raw: bool) -> WebhookSecret:
    """A webhook with a new secret, if `raw`."""
    return WebhookSecret(
        **_standing(StandingWebhook(done.row, done.target, facts), key),
        secret=done.secret if raw else None,
        former_until=done.former_until,
        next_action="Store the secret where deliveries are verified, beside the one before, until former_until.",
    )


def delivery_list(found: Sequence[LoggedDelivery], next_after: int | None) -> DeliveryList:
    """A page of the log of deliveries."""
    return DeliveryList(
        deliveries=[DeliveryItem(**_delivery(one)) for one in found],
        next_after=next_after,
        next_action="Read on with after, as next_after says."
        if next_after is not None
        else "Resend a delivery that your receiver has lost.",
    )


def resent(delivery: LoggedDelivery) -> DeliveryResent:
    """A delivery that was queued again, unless its webhook is stopped."""
    return DeliveryResent(
        **_delivery(delivery),
        next_action=_START_FIRST if delivery.status == "stopped" else "Nothing to do. It is sent with the same id.",
    )


def replayed(webhook: StandingWebhook, queued: int) -> WebhookReplayed:
    """The outcome of a replay."""
    stopped = webhook.row.status != "active"
    return WebhookReplayed(
        id=webhook.row.id,
        queued=queued,
        next_action=_START_FIRST if stopped else "Read the deliveries to follow them.",
    )


def _delivery(one: LoggedDelivery) -> dict[str, Any]:
    """The members of DeliveryItem."""
    return {"delivery_id": one.id, **{name: value for name, value in one._asdict().items() if name != "id"}}


def ended(webhook: EndedWebhook) -> WebhookDeletedBody:
    """A deleted webhook."""
    return WebhookDeletedBody(
        id=webhook.id,
        deleted_at=webhook.deleted_at,
        next_action="Nothing to do. No delivery begins any more.",
    )


def tested(webhook_id: str, delivery_id: str, attempt: AttemptOutcome) -> WebhookTested:
    """The outcome of a test."""
    return WebhookTested(
        id=webhook_id,
        status="tested" if attempt.delivered else "unhealthy",
        delivery_id=delivery_id,
        delivered=attempt.delivered,
        last_status=attempt.status,
        last_error=attempt.error,
        next_action="Nothing to do. Events are delivered as they happen." if attempt.delivered else _MEND,
    )


def health(webhooks: Sequence[StandingWebhook]) -> list[WebhookHealth]:
    """The latest outcome of each webhook, for the health of its project."""
    return [
        WebhookHealth(id=one.row.id, last_status=one.facts.last_status, last_error=one.facts.last_error)
        for one in webhooks
    ]


def status_of(facts: WebhookFacts) -> WebhookStatus:
    """The status by the latest outcome (R-WEB-05)."""
    return "unhealthy" if facts.last_error is not None else cast("WebhookStatus", facts.stage)


def _advice(webhook: StandingWebhook) -> str:
    if webhook.row.stop_reason in {"gone", "failing"}:
        return _REOPEN
    if webhook.row.status != "active":
        return "Set enabled to true to receive events again."
    return _MEND if status_of(webhook.facts) == "unhealthy" else "Nothing to do. Events are delivered as they happen."


def _standing(webhook: StandingWebhook, key: bytes | None) -> dict[str, Any]:
    row, target, facts = webhook
    url = unseal(key, WEBHOOK_URL, scope_of(row.project_id, row.id), target.url)
    return _members(row, url or row.origin, target.description, facts)


def _members(row: WebhookRow, url: str, description: str | None, facts: WebhookFacts) -> dict[str, Any]:
    """The members of WebhookItem."""
    return {
        "id": row.id,
        "project_id": row.project_id,
        "url": url,
        "events": row.events,
        "description": description,
        "status": status_of(facts),
        "enabled": row.status == "active",
        "stop_reason": row.stop_reason,
        "stopped_at": row.stopped_at,
        "last_status": facts.last_status,
        "last_error": facts.last_error,
        "last_delivered_at": facts.last_delivered_at,
        "secret_prefix": row.secret_prefix,
        "created_at": row.created_at,
    }
