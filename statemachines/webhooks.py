"""A webhook: an address of a member's receiver, registered, changed, stopped, reopened, deleted (R-WEB, G-090, G-159).

Deliveries record nothing here, and neither do their outcomes: these are facts. The address and the secret are sealed
beside the stream, because either may open something. Events hold the origin of the one and the first characters of
the other.
"""

from enum import Enum
from typing import Literal

import msgspec

from statemachines.kernel.machine import (
    Event,
    LimitReached,
    Rejection,
    StateMachine,
    Stream,
    destination,
    transition_table,
)

WEBHOOKS_LIMIT = 20
"""Webhooks that a project has at most."""
FORMER_SECONDS = 86_400
"""How long a secret still signs after its successor was made."""

StopReason = Literal["gone", "failing", "member"]
"""`gone`: the receiver answered 410. `failing`: five days of failures. `member`: a member switched it off."""


def stream(project_id: str, webhook_id: str) -> Stream:
    """History of a webhook. Raises WebhookNotFound for an id of something else."""
    if not webhook_id.startswith(f"{MACHINE.kind}_"):
        raise no_webhook()
    return Stream(MACHINE, project_id, webhook_id)


class Status(Enum):
    """Where a webhook stands."""

    ABSENT = "absent"
    ACTIVE = "active"
    STOPPED = "stopped"
    DELETED = "deleted"


class WebhookRegistered(Event, frozen=True):
    """A member registered an address. `origin` is its scheme, host and port."""

    TOPIC = "webhook.registered.v1"
    origin: str
    events: list[str]
    secret_prefix: str
    created_at: int


class WebhookChanged(Event, frozen=True):
    """A member changed the address, the subscription or the description."""

    TOPIC = "webhook.changed.v1"
    origin: str
    events: list[str]
    changed_at: int


class WebhookSecretRotated(Event, frozen=True):
    """The secret was replaced. The one before signs beside it until a time (epoch seconds)."""

    TOPIC = "webhook.secret_rotated.v1"
    secret_prefix: str
    former_until: int
    rotated_at: int


class WebhookStopped(Event, frozen=True):
    """Nothing is delivered from here on, nor what was queued before."""

    TOPIC = "webhook.stopped.v1"
    reason: StopReason
    stopped_at: int


class WebhookReopened(Event, frozen=True):
    """What happens from here on is delivered again."""

    TOPIC = "webhook.reopened.v1"
    reopened_at: int


class WebhookDeleted(Event, frozen=True):
    """A member deleted the webhook."""

    TOPIC = "webhook.deleted.v1"
    deleted_at: int


_STANDING = [Status.ACTIVE, Status.STOPPED]
TABLE = transition_table(
    Status,
    Status.ABSENT,
    [
        [WebhookRegistered.TOPIC, Status.ABSENT, Status.ACTIVE],
        [WebhookChanged.TOPIC, _STANDING, None],
        [WebhookSecretRotated.TOPIC, _STANDING, None],
        [WebhookStopped.TOPIC, _STANDING, Status.STOPPED],
        [WebhookReopened.TOPIC, Status.STOPPED, Status.ACTIVE],
        [WebhookDeleted.TOPIC, _STANDING, Status.DELETED],
    ],
)


class Webhook(msgspec.Struct, frozen=True):
    """What the decisions on a webhook depend on. `reason` is why it is stopped."""

    status: Status = Status.ABSENT
    origin: str = ""
    events: tuple[str, ...] = ()
    reason: StopReason | None = None

    @property
    def stands(self) -> bool:
        """Whether there is such a webhook."""
        return self.status in _STANDING


class WebhookNotFound(Rejection):
    """There is no such webhook in the project, or none any more: these look the same."""

    code = "webhook_not_found"


class TooManyWebhooks(LimitReached):
    """The project has as many webhooks as it may have."""


class WebhookFailing(Rejection):
    """The service stopped the webhook for its failures: a test has to succeed first."""

    code = "invalid_payload"


class WebhookWish(msgspec.Struct, frozen=True):
    """A webhook to register."""

    origin: str
    events: tuple[str, ...]
    secret_prefix: str


class WebhookChange(msgspec.Struct, frozen=True):
    """The parts of a webhook to change. None: as it is. `described`: its description changes."""

    origin: str | None = None
    events: tuple[str, ...] | None = None
    enabled: bool | None = None
    readdressed: bool = False
    described: bool = False


def no_webhook() -> WebhookNotFound:
    """The one refusal for an absent webhook, a deleted one, and one of somebody else."""
    return WebhookNotFound("There is no such webhook.", next_action="List the webhooks of the project.")


def decide_register(state: Webhook, wish: WebhookWish, now: int, *, standing: int) -> list[Event]:
    """Register a webhook beside the `standing` ones. A repeat records nothing. Raises TooManyWebhooks."""
    if state.status is not Status.ABSENT:
        return []
    if standing >= WEBHOOKS_LIMIT:
        raise TooManyWebhooks(
            f"A project has at most {WEBHOOKS_LIMIT} webhooks.",
            next_action="Delete a webhook that is no longer needed.",
        )
    return [WebhookRegistered(wish.origin, list(wish.events), wish.secret_prefix, now)]


def decide_change(state: Webhook, change: WebhookChange, now: int) -> list[Event]:
    """Change a webhook. What is so already records nothing. Raises WebhookNotFound, WebhookFailing."""
    _check_stands(state)
    events: list[Event] = []
    origin = state.origin if change.origin is None else change.origin
    names = state.events if change.events is None else change.events
    if change.readdressed or change.described or (origin, names) != (state.origin, state.events):
        events.append(WebhookChanged(origin, list(names), now))
    if change.enabled is False and state.reason != "member":
        events.append(WebhookStopped("member", now))
    if change.enabled is True and state.status is Status.STOPPED:
        if state.reason != "member":
            raise WebhookFailing(
                "The service stopped this webhook because its receiver failed.",
                next_action="Send a test. Its success starts the webhook again.",
                missing_fields=[],
                invalid_fields=[{"field": "enabled", "reason": "must wait for a test that succeeds"}],
                unknown_fields=[],
                request_body_schema=None,
            )
        events.append(WebhookReopened(now))
    return events


def decide_rotate(state: Webhook, secret_prefix: str, now: int) -> list[Event]:
    """Replace the secret. Raises WebhookNotFound."""
    _check_stands(state)
    return [WebhookSecretRotated(secret_prefix, now + FORMER_SECONDS, now)]


def decide_stop(state: Webhook, reason: StopReason, now: int) -> list[Event]:
    """Stop a webhook for its failures. One that is stopped or gone records nothing."""
    return [WebhookStopped(reason, now)] if state.status is Status.ACTIVE else []


def decide_tested(state: Webhook, now: int, *, delivered: bool) -> list[Event]:
    """Take in the outcome of a test: a success lifts a stop that failures caused. Raises WebhookNotFound."""
    _check_stands(state)
    lifted = delivered and state.status is Status.STOPPED and state.reason != "member"
    return [WebhookReopened(now)] if lifted else []


def decide_delete(state: Webhook, now: int) -> list[Event]:
    """Delete a webhook. Raises WebhookNotFound once it is gone."""
    _check_stands(state)
    return [WebhookDeleted(now)]


def _check_stands(state: Webhook) -> None:
    if not state.stands:
        raise no_webhook()


def evolve(state: Webhook, event: Event) -> Webhook:
    """Fold an event of a webhook."""
    status = Status[destination(TABLE, event, state.status)]
    match event:
        case WebhookRegistered() | WebhookChanged():
            return Webhook(status, event.origin, tuple(event.events), state.reason)
        case WebhookStopped(reason):
            return msgspec.structs.replace(state, status=status, reason=reason)
        case WebhookReopened():
            return msgspec.structs.replace(state, status=status, reason=None)
        case _:
            return msgspec.structs.replace(state, status=status)


MACHINE = StateMachine("wh", TABLE, Webhook(), evolve, WebhookNotFound, Webhook)
