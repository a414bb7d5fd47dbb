"""Wire contract of names of events and keys of their properties, without a value (R-QRY-05, G-064, G-155)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from schemas.kernel.shape import Epoch

MAX_NAMES = 20
"""Names of events in `events`."""

JsonType = Literal["array", "boolean", "null", "number", "object", "string"]


class EventNamesQuery(msgspec.Struct, frozen=True):
    """The window in days, and the number of names."""

    days: Annotated[int, Meta(ge=1, le=90)] = 30
    limit: Annotated[int, Meta(ge=1, le=1000)] = 200


class PropertyKeysQuery(msgspec.Struct, frozen=True):
    """The window in days, the number of keys, and the events: at most 20 names with commas between them."""

    days: Annotated[int, Meta(ge=1, le=90)] = 30
    limit: Annotated[int, Meta(ge=1, le=1000)] = 200
    events: Annotated[str, Meta(min_length=1, max_length=4019)] | None = None


class EventName(msgspec.Struct, frozen=True, kw_only=True):
    """The rows and people of an event name within the window, and the times of its first and last row.

    `unique_users` is null for a name with too many rows to count people in. Ask for fewer days then.
    """

    event: str
    row_count: int
    unique_users: int | None
    first_seen_at: Epoch
    last_seen_at: Epoch


class EventNames(msgspec.Struct, frozen=True, kw_only=True):
    """The names of a project's events within `window_days`, most rows first, then by name.

    All numbers count since `counted_from`. `complete` is false for a window with an earlier start, and for one with a
    day of more than 1,000 names.
    """

    project_id: str
    window_days: int
    analytics_events: list[EventName]
    count: int
    counted_from: Epoch
    complete: bool
    next_action: str


class PropertyKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key of an event's properties with its rows and the JSON types of its values."""

    event: str
    key: str
    row_count: int
    types: list[JsonType]


class PropertyKeys(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of the properties of events within `window_days`, most rows first, then by event and key. No values.

    `events` repeats the names of the request, and null means all. All numbers count since `counted_from`. `complete` is
    false for a window with an earlier start, and for one with a day of more than 5,000 keys or a key of more than 160
    characters.
    """

    project_id: str
    window_days: int
    events: list[str] | None
    keys: list[PropertyKey]
    count: int
    counted_from: Epoch
    complete: bool
    next_action: str
