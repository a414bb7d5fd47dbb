"""Wire contract of the catalogue of events that webhooks are told of (R-WEB, G-091, G-160)."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from schemas.webhooks.event import DeliveryBody, EventName


class WebhookEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of delivery, with the JSON Schema of its body and an example.

    `in_star`: `*` stands for it among others. Every other name but `webhook.test` is delivered when it is listed.
    """

    event: EventName | Literal["webhook.test"]
    description: str
    in_star: bool
    schema: dict[str, Any]
    example: DeliveryBody


class WebhookEventList(msgspec.Struct, frozen=True, kw_only=True):
    """Every kind of delivery."""

    events: list[WebhookEvent]
    count: int
    next_action: str
