"""Wire contracts of the log of deliveries: read, resent, replayed (G-161)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from schemas.kernel.shape import SAFE_INTEGER, Closed, Epoch

DeliveryStatus = Literal["pending", "delivered", "failed", "exhausted", "stopped"]
Position = Annotated[int, Meta(ge=0, le=SAFE_INTEGER, description="A position in the log of all events.")]
MAX_RANGE = 10_000
"""Positions that one replay goes through."""


class DeliveryQuery(msgspec.Struct, frozen=True):
    """The position behind which the page begins, its length, and the status of its deliveries."""

    after: Position = 0
    status: DeliveryStatus | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


class DeliveryItem(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery without its body. `failed`: its next attempt is due at `next_attempt_at`.

    `exhausted`: the last attempt of the schedule has failed. `stopped`: the webhook was stopped before it was
    delivered. `body_sha256` is null before the first attempt, which fixes the body.
    """

    delivery_id: str
    event: str
    position: Position
    subject_id: str
    status: DeliveryStatus
    attempts: int
    last_status: int | None
    last_error: Annotated[str, Meta(max_length=500)] | None
    next_attempt_at: Epoch | None
    body_sha256: str | None


class DeliveryList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of deliveries in the order of the log. A page may be short and still have a `next_after`."""

    deliveries: list[DeliveryItem]
    next_after: Position | None
    next_action: str


class DeliveryResent(DeliveryItem, frozen=True, kw_only=True):
    """A delivery that was queued again, with its id and body."""

    next_action: str


class ReplayWebhook(Closed, frozen=True):
    """A range of positions: those after `after`, up to `until`."""

    after: Position
    until: Position


class WebhookReplayed(msgspec.Struct, frozen=True, kw_only=True):
    """The number of deliveries that a replay has queued."""

    id: str
    queued: int
    next_action: str
