"""Ids of things: a prefix and a lowercase ULID (G-002)."""

from __future__ import annotations

import os
import time
from functools import lru_cache

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [first + second for first in _DIGITS for second in _DIGITS]  # ten bits at a time: ids are made on hot paths


def _text(number: int, bits: int) -> str:
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(bits - 10, -10, -10)])


@lru_cache(maxsize=4)  # of a millisecond: many ids are made in one
def _time_part(milliseconds: int) -> str:
    return _text(milliseconds, 50)


def new_id(prefix: str) -> str:
    """Make a fresh id, `<prefix>_<26 characters>`; unguessable (80 random bits), never parsed."""
    return f"{prefix}_{_time_part(time.time_ns() // 1_000_000)}{_text(int.from_bytes(os.urandom(10), 'big'), 80)}"
