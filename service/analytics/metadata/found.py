"""Names and keys of a project's events, without their values, and the extent of the count (G-155)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class NameFound(msgspec.Struct, frozen=True):
    """The rows and people of a name, and the times of its first and last row (epoch seconds).

    `unique_users` is None for a name with too many rows to look at.
    """

    event: str
    row_count: int
    unique_users: int | None
    first_seen_at: int
    last_seen_at: int


class KeyFound(msgspec.Struct, frozen=True):
    """A key of an event's properties with its rows and the JSON types of its values, sorted."""

    event: str
    key: str
    row_count: int
    types: list[str]


class NamesFound(msgspec.Struct, frozen=True):
    """Names of a window, most rows first. All numbers count since `counted_from` (epoch seconds).

    Not `complete`: the window begins before that, or some rows have an uncounted name.
    """

    names: Sequence[NameFound]
    counted_from: int
    complete: bool


class KeysFound(msgspec.Struct, frozen=True):
    """Keys of a window, likewise."""

    keys: Sequence[KeyFound]
    counted_from: int
    complete: bool
