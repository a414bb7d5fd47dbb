"""The shape of a strict body."""

from __future__ import annotations

import msgspec


class Closed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An object that takes exactly its declared keys."""
