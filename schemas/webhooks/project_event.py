"""Wire contract of a project's events, for callers without a receiver (G-161)."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from schemas.kernel.shape import Epoch
from schemas.webhooks.delivery import Position

MAX_EVENTS_OF_POLL = 50


class ProjectEventQuery(msgspec.Struct, frozen=True):
    """The position behind which the page begins, its length, and the names of its events, parted by commas.

    Without names, the page has the five that `*` stands for in a webhook.
    """

    after: Position = 0
    names: Annotated[str, Meta(min_length=1, max_length=500)] | None = None
    limit: Annotated[int, Meta(ge=1, le=MAX_EVENTS_OF_POLL)] = 20


class ProjectEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event as webhooks are told of it. Its id is made from project and event, and stays the same."""

    id: str
    event: str
    position: Position
    created_at: Epoch
    data: dict[str, Any]


class ProjectEventList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of events in the order of the log. Poll on with `next_after`, also after an empty page."""

    project_id: str
    events: list[ProjectEvent]
    next_after: Position
    next_action: str
