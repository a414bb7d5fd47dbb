"""Ids of things: a prefix and a lowercase ULID (G-002)."""

from __future__ import annotations

import os
import time
from functools import lru_cache

MADE_AT_ONCE = 256  # random parts
_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [first + second for first in _DIGITS for second in _DIGITS]  # ten bits at a time: ids are made on hot paths


def _text(number: int, bits: int) -> str:
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(bits - 10, -10, -10)])


@lru_cache(maxsize=4)  # of a millisecond: many ids are made in one
def _time_part(milliseconds: int) -> str:
    return _text(milliseconds, 50)


_random_parts: list[str] = []  # made in advance: each is used once, and by the process that made it
os.register_at_fork(after_in_child=_random_parts.clear)


def _random_part() -> str:
    try:
        return _random_parts.pop()
    except IndexError:
        drawn = os.urandom(10 * MADE_AT_ONCE)
        parts = [_text(int.from_bytes(drawn[n : n + 10], "big"), 80) for n in range(0, len(drawn), 10)]
        _random_parts.extend(parts[1:])
        return parts[0]


def new_id(prefix: str) -> str:
    """Make a fresh id, `<prefix>_<26 characters>`; unguessable (80 random bits), never parsed."""
    return f"{prefix}_{_time_part(time.time_ns() // 1_000_000)}{_random_part()}"
