"""Arrays of JSON, of which only so many items are built as are asked for: what follows is gone over and forgotten.

An array of two million zeros fits in some kilobytes once it is packed, and a piece of each of them takes a hundred
times its bytes. So whoever takes at most a thousand items asks for one more than that. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

_FEWEST = 3  # 2 to this power is the smallest number of items that there is a decoder for
_ABSENT = msgspec.Raw(b"")


def first_items(raw: bytes, most: int) -> list[bytes]:
    """The texts of at most the first `most` items. Raises ValueError and RecursionError for what is no JSON array."""
    items: list[bytes] = []
    for item in msgspec.structs.astuple(_decoder(min(most, _at_least(raw.count(b",") + 1)))(raw)):
        if item is _ABSENT:
            break
        items.append(bytes(item))
    return items


def _at_least(items: int) -> int:
    """One of a few numbers that is not less: to build a decoder takes long, and to leave members out some time."""
    return 1 << max(_FEWEST, (items - 1).bit_length())


@cache
def _decoder(most: int) -> Callable[[bytes], Any]:
    """A decoder of arrays as structs of so many members: those that an array has not are left out, more are skipped."""
    fields = [(f"item_{number}", msgspec.Raw, _ABSENT) for number in range(most)]
    return msgspec.json.Decoder(msgspec.defstruct("Items", fields, array_like=True)).decode
