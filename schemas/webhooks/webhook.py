"""Wire contracts of webhooks (R-WEB, G-090, G-091, G-160)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from schemas.kernel.shape import Closed, Epoch
from schemas.webhooks.delivery import DeliveryItem
from schemas.webhooks.event import EventName

MAX_URL = 2000
MAX_NAMES = 20
STAR = "*"

WebhookUrl = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_URL,
        description="An https address on the public internet, without user information and fragment.",
    ),
]
Subscription = Annotated[
    list[Literal["*"] | EventName],
    Meta(
        min_length=1,
        max_length=MAX_NAMES,
        description='Unique names, or ["*"] alone: the five names that every project has.',
        extra_json_schema={"uniqueItems": True},
    ),
]
Description = Annotated[str, Meta(max_length=500)]
WebhookStatus = Literal["registered", "tested", "delivering", "unhealthy", "deleted"]


class CreateWebhook(Closed, frozen=True):
    """An address to call, and the events to deliver."""

    url: WebhookUrl
    events: Subscription
    description: Description | msgspec.UnsetType = msgspec.UNSET


class ChangeWebhook(Closed, frozen=True):
    """The parts of a webhook to change. An absent member stays as it is. `enabled` false stops it."""

    url: WebhookUrl | msgspec.UnsetType = msgspec.UNSET
    events: Subscription | msgspec.UnsetType = msgspec.UNSET
    description: Description | msgspec.UnsetType | None = msgspec.UNSET
    enabled: bool | msgspec.UnsetType = msgspec.UNSET


class WebhookItem(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook with the outcome of its latest attempt. `last_error` is a sentence of the service.

    While `enabled` is false, nothing is queued. `stop_reason` tells why: `gone` after an answer of 410, `failing`
    after five days of failures, `member` if a member switched it off. A successful test lifts the first two.
    """

    id: str
    project_id: str
    url: str
    events: list[str]
    description: str | None
    status: WebhookStatus
    enabled: bool
    stop_reason: Literal["gone", "failing", "member"] | None
    stopped_at: Epoch | None
    last_status: int | None
    last_error: Annotated[str, Meta(max_length=500)] | None
    last_delivered_at: Epoch | None
    secret_prefix: str
    created_at: Epoch


class WebhookRecord(WebhookItem, frozen=True, kw_only=True):
    """A changed webhook."""

    next_action: str


class WebhookDetail(WebhookItem, frozen=True, kw_only=True):
    """A webhook with its newest deliveries."""

    recent_deliveries: list[DeliveryItem]
    next_action: str


class WebhookSecret(WebhookItem, frozen=True, kw_only=True):
    """A webhook with a new secret, shown once: it is null in a repeat of the request.

    Until `former_until` (epoch seconds) the secret before it signs as well.
    """

    secret: str | None
    former_until: Epoch
    next_action: str


class WebhookCreated(WebhookItem, frozen=True, kw_only=True):
    """A new webhook. `secret` signs its deliveries and is shown once: it is null in a repeat of the request."""

    secret: str | None
    next_action: str


class WebhookList(msgspec.Struct, frozen=True, kw_only=True):
    """All webhooks of a project, newest first."""

    project_id: str
    webhooks: list[WebhookItem]
    count: int
    next_action: str


class WebhookDeletedBody(msgspec.Struct, frozen=True, kw_only=True):
    """A deleted webhook."""

    id: str
    status: Literal["deleted"] = "deleted"
    deleted_at: Epoch
    next_action: str


class WebhookTested(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a test delivery."""

    id: str
    status: Literal["tested", "unhealthy"]
    delivery_id: str
    delivered: bool
    last_status: int | None
    last_error: Annotated[str, Meta(max_length=500)] | None
    next_action: str
