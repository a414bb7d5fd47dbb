"""Bounds and codes of counting by name: JSON types as bits, and the names and keys of a project's day (G-155)."""

from __future__ import annotations

from typing import Final

TYPES: Final = ("array", "boolean", "null", "number", "object", "string")
"""JSON types by their bit in `event_key_days.types`, the lowest first."""

BITS: Final = {list: 1, bool: 2, type(None): 4, int: 8, float: 8, dict: 16, str: 32}
"""The bit of a value by its Python type."""

MAX_KEY: Final = 160
"""Characters of a key. A longer one is counted with the others, and no query can name it."""

MOST_NAMES: Final = 1000
MOST_KEYS: Final = 5000
"""Names, and pairs of an event and a key, of a project and day. `ingest_names` counts all others together."""


def types_of(bits: int) -> list[str]:
    """The JSON types of these bits, sorted."""
    return [name for place, name in enumerate(TYPES) if bits >> place & 1]
