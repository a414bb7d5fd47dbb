"""Webhooks: registered, changed, tested, deleted, stopped for failures (R-WEB, G-090, G-159).

The address and the secret are sealed before the unit, and lie beside the stream as a fact under its lock. Creators of
one project take a gate of their own, one after the other, so that their number is exact.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from projections.webhooks.webhook import WEBHOOK_COUNTS, WEBHOOK_TARGETS, WEBHOOKS, WebhookRow, WebhookTargetRow
from service.auth.sealing import seal
from service.eventstore.declare.commands import Lookup, Unit
from service.eventstore.declare.intents import Intent
from service.ids import new_id
from service.webhooks.sending import WEBHOOK_SECRET, WEBHOOK_URL, scope_of
from service.webhooks.signing import SHOWN_LENGTH, make_secret
from statemachines.kernel.machine import Stream
from statemachines.webhooks import webhook as webhooks
from statemachines.webhooks.webhook import FORMER_SECONDS, StopReason, WebhookChange, WebhookWish, no_webhook


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
