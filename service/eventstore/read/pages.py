"""Where a page of a list begins and ends: newest first, ties by id descending (G-005)."""

from __future__ import annotations

from typing import NamedTuple


class PageEnd(NamedTuple):
    """Where a page ended: a time in epoch seconds and an id."""

    at: int
    id: str


END = PageEnd((1 << 53) - 1, "\U0010ffff")  # above every item: where the first page begins
