"""Webhooks: registered, changed, tested, deleted, stopped for failures, and shown (R-WEB, G-090, G-159).

The address and the secret are sealed before the unit, and lie beside the stream as a fact under its lock. Creators of
one project take a gate of their own, one after the other, so that their number is exact.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import msgspec
from msgspec.structs import replace

from projections.webhooks import WEBHOOK_COUNTS, WEBHOOK_TARGETS, WEBHOOKS, WebhookRow, WebhookTargetRow
from schemas import webhooks as wire
from schemas.projects import WebhookHealth
from service.auth.secrets import seal, unseal
from service.eventstore.declare.commands import Intent, Lookup, Unit
from service.eventstore.store import EventStore
from service.ids import new_id
from service.sql import load_query
from service.webhooks.sending import SHOWN_LENGTH, WEBHOOK_SECRET, WEBHOOK_URL, AttemptOutcome, make_secret, scope_of
from statemachines import webhooks
from statemachines.kernel.machine import Stream
from statemachines.webhooks import FORMER_SECONDS, StopReason, WebhookChange, WebhookWish, no_webhook

# Webhooks: registered, changed, tested, deleted, stopped for failures (R-WEB, G-090, G-159).


class NewWebhook(NamedTuple):
    """A webhook that was just registered, with its address and its secret in the clear."""

    row: WebhookRow
    url: str
    description: str | None
    secret: str


class ChangedWebhook(NamedTuple):
    """A webhook as a change has left it."""

    row: WebhookRow
    target: WebhookTargetRow


class RotatedSecret(NamedTuple):
    """A webhook with a secret that was just made. The one before signs until a time (epoch seconds)."""

    row: WebhookRow
    target: WebhookTargetRow
    secret: str
    former_until: int


class EndedWebhook(NamedTuple):
    """A webhook that was deleted, in epoch seconds."""

    id: str
    deleted_at: int


class AddressChange(NamedTuple):
    """A new address, and its origin as events hold it."""

    url: str
    origin: str


def register(
    project_id: str, address: AddressChange, events: tuple[str, ...], description: str | None, key: bytes
) -> Intent[NewWebhook]:
    """Register an address under a new id, its secret sealed with a key. Raises TooManyWebhooks."""
    stream, secret = webhooks.stream(project_id, new_id("wh")), make_secret()
    target = WebhookTargetRow(
        project_id=project_id,
        id=stream.id,
        url=seal(key, WEBHOOK_URL, scope_of(*stream.name), address.url),
        secret=seal(key, WEBHOOK_SECRET, scope_of(*stream.name), secret),
        description=description,
    )
    wish = WebhookWish(address.origin, events, secret[:SHOWN_LENGTH])

    def decide(unit: Unit) -> NewWebhook:
        counted = unit.row(WEBHOOK_COUNTS, project_id, project_id)
        standing = counted.standing if counted else 0
        unit.append(stream, webhooks.decide_register(unit.state(stream), wish, unit.now, standing=standing))
        unit.put(stream, WEBHOOK_TARGETS, target)
        return NewWebhook(_row(unit, stream), address.url, description, secret)

    lookups = [Lookup(WEBHOOK_COUNTS, project_id, project_id)]
    return Intent([stream], decide, lookups=lookups, fence=f"webhooks:{project_id}", saves=True)


def change(
    project_id: str,
    webhook_id: str,
    wish: WebhookChange,
    *,
    address: AddressChange | None,
    description: str | None,
    key: bytes | None,
) -> Intent[ChangedWebhook]:
    """Change a webhook. Raises WebhookNotFound, WebhookFailing."""
    stream = webhooks.stream(project_id, webhook_id)
    sealed = None if address is None else seal(key, WEBHOOK_URL, scope_of(project_id, webhook_id), address.url)

    def decide(unit: Unit) -> ChangedWebhook:
        unit.append(stream, webhooks.decide_change(unit.state(stream), wish, unit.now))
        target = _target(unit, stream)
        if sealed is not None:
            target = replace(target, url=sealed)
        if wish.described:
            target = replace(target, description=description)
        unit.put(stream, WEBHOOK_TARGETS, target)
        return ChangedWebhook(_row(unit, stream), target)

    return Intent([stream], decide, lookups=[Lookup(WEBHOOK_TARGETS, *stream.name)])


def rotate_secret(project_id: str, webhook_id: str, key: bytes) -> Intent[RotatedSecret]:
    """Replace the secret, sealed with a key. The one before signs beside it for a day. Raises WebhookNotFound."""
    stream, secret = webhooks.stream(project_id, webhook_id), make_secret()
    sealed = seal(key, WEBHOOK_SECRET, scope_of(project_id, webhook_id), secret)

    def decide(unit: Unit) -> RotatedSecret:
        unit.append(stream, webhooks.decide_rotate(unit.state(stream), secret[:SHOWN_LENGTH], unit.now))
        before, until = _target(unit, stream), unit.now + FORMER_SECONDS
        target = replace(before, secret=sealed, former_secret=before.secret, former_until=until)
        unit.put(stream, WEBHOOK_TARGETS, target)
        return RotatedSecret(_row(unit, stream), target, secret, until)

    return Intent([stream], decide, lookups=[Lookup(WEBHOOK_TARGETS, *stream.name)])


def delete(project_id: str, webhook_id: str) -> Intent[EndedWebhook]:
    """Delete a webhook, with its address and secret: no attempt begins after the answer (R-WEB-09).

    Raises WebhookNotFound.
    """
    stream = webhooks.stream(project_id, webhook_id)

    def decide(unit: Unit) -> EndedWebhook:
        unit.append(stream, webhooks.decide_delete(unit.state(stream), unit.now))
        unit.put(stream, WEBHOOK_TARGETS, WebhookTargetRow(project_id=project_id, id=webhook_id, url=None, secret=None))
        return EndedWebhook(webhook_id, unit.now)

    return Intent([stream], decide)


def tested(project_id: str, webhook_id: str, *, delivered: bool) -> Intent[None]:
    """Take in the outcome of a test: a success lifts a stop that failures caused. Raises WebhookNotFound."""
    stream = webhooks.stream(project_id, webhook_id)

    def decide(unit: Unit) -> None:
        unit.append(stream, webhooks.decide_tested(unit.state(stream), unit.now, delivered=delivered))

    return Intent([stream], decide)


def look_at(project_id: str, webhook_id: str) -> Intent[None]:
    """Record nothing, and find the webhook still there. Raises WebhookNotFound."""
    stream = webhooks.stream(project_id, webhook_id)

    def decide(unit: Unit) -> None:
        if not unit.state(stream).stands:
            raise no_webhook()

    return Intent([], decide, reads=[stream])


def stop(project_id: str, webhook_id: str, reason: StopReason) -> Intent[None]:
    """Stop a webhook for its failures. One that is stopped or gone records nothing."""
    stream = webhooks.stream(project_id, webhook_id)

    def decide(unit: Unit) -> None:
        unit.append(stream, webhooks.decide_stop(unit.state(stream), reason, unit.now))

    return Intent([stream], decide)


def _row(unit: Unit, stream: Stream) -> WebhookRow:
    row = unit.row(WEBHOOKS, *stream.name)
    if row is None:
        raise no_webhook()
    return row


def _target(unit: Unit, stream: Stream) -> WebhookTargetRow:
    row = unit.row(WEBHOOK_TARGETS, *stream.name)
    if row is None:
        raise no_webhook()
    return row


# Queries about webhooks.

LOOKED_AT = 2_000
"""Deliveries that one page looks through for those of a status."""

_OF_PROJECT = load_query("webhooks", "of_project")
_DELIVERIES = load_query("webhooks", "deliveries")
_RECENT = load_query("webhooks", "recent_deliveries")
_DELIVERY = load_query("webhooks", "delivery")


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


# Webhooks on the wire, never with a secret but in the answer that made it (G-090, R-WEB-05).

_MEND = "Make the receiver answer with a status of 2xx, then send a test."
_START_FIRST = "The webhook is stopped, so nothing was queued. Start it first."
_REOPEN = "Make the receiver answer with a status of 2xx, then send a test. Its success starts the webhook again."


def created(made: NewWebhook, *, raw: bool) -> wire.WebhookCreated:
    """A new webhook, with its secret if `raw`."""
    return wire.WebhookCreated(
        **_members(made.row, made.url, made.description, WebhookFacts()),
        secret=made.secret if raw else None,
        next_action="Store the secret where deliveries are verified: it is not shown again. Then send a test.",
    )


def listed(project_id: str, webhooks: Sequence[StandingWebhook], key: bytes | None) -> wire.WebhookList:
    """All webhooks of a project."""
    items = [wire.WebhookItem(**_standing(webhook, key)) for webhook in webhooks]
    unhealthy = any(item.status == "unhealthy" for item in items)
    return wire.WebhookList(
        project_id=project_id,
        webhooks=items,
        count=len(items),
        next_action=_MEND if unhealthy else "Register an address to be told of cases and deploys.",
    )


def record(webhook: StandingWebhook, key: bytes | None) -> wire.WebhookRecord:
    """A changed webhook."""
    return wire.WebhookRecord(**_standing(webhook, key), next_action=_advice(webhook))


def detail(webhook: StandingWebhook, recent: Sequence[LoggedDelivery], key: bytes | None) -> wire.WebhookDetail:
    """One webhook with its newest deliveries."""
    deliveries = [wire.DeliveryItem(**_delivery(one)) for one in recent]
    return wire.WebhookDetail(**_standing(webhook, key), recent_deliveries=deliveries, next_action=_advice(webhook))


def rotated(done: RotatedSecret, facts: WebhookFacts, key: bytes | None, *, raw: bool) -> wire.WebhookSecret:
    """A webhook with a new secret, if `raw`."""
    return wire.WebhookSecret(
        **_standing(StandingWebhook(done.row, done.target, facts), key),
        secret=done.secret if raw else None,
        former_until=done.former_until,
        next_action="Store the secret where deliveries are verified, beside the one before, until former_until.",
    )


def delivery_list(found: Sequence[LoggedDelivery], next_after: int | None) -> wire.DeliveryList:
    """A page of the log of deliveries."""
    return wire.DeliveryList(
        deliveries=[wire.DeliveryItem(**_delivery(one)) for one in found],
        next_after=next_after,
        next_action="Read on with after, as next_after says."
        if next_after is not None
        else "Resend a delivery that your receiver has lost.",
    )


def resent(delivery: LoggedDelivery) -> wire.DeliveryResent:
    """A delivery that was queued again, unless its webhook is stopped."""
    return wire.DeliveryResent(
        **_delivery(delivery),
        next_action=_START_FIRST if delivery.status == "stopped" else "Nothing to do. It is sent with the same id.",
    )


def replayed(webhook: StandingWebhook, queued: int) -> wire.WebhookReplayed:
    """The outcome of a replay."""
    stopped = webhook.row.status != "active"
    return wire.WebhookReplayed(
        id=webhook.row.id,
        queued=queued,
        next_action=_START_FIRST if stopped else "Read the deliveries to follow them.",
    )


def _delivery(one: LoggedDelivery) -> dict[str, Any]:
    """The members of DeliveryItem."""
    return {"delivery_id": one.id, **{name: value for name, value in one._asdict().items() if name != "id"}}


def ended(webhook: EndedWebhook) -> wire.WebhookDeletedBody:
    """A deleted webhook."""
    return wire.WebhookDeletedBody(
        id=webhook.id,
        deleted_at=webhook.deleted_at,
        next_action="Nothing to do. No delivery begins any more.",
    )


def shown_test(webhook_id: str, delivery_id: str, attempt: AttemptOutcome) -> wire.WebhookTested:
    """The outcome of a test."""
    return wire.WebhookTested(
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


def status_of(facts: WebhookFacts) -> wire.WebhookStatus:
    """The status by the latest outcome (R-WEB-05)."""
    return "unhealthy" if facts.last_error is not None else cast("wire.WebhookStatus", facts.stage)


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
