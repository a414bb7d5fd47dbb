"""Ids of things: a prefix and a lowercase ULID (G-002)."""

from __future__ import annotations

import os
import time
from functools import lru_cache

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [first + second for first in _DIGITS for second in _DIGITS]  # ten bits at a time: ids are made on hot paths
_RANDOM_BITS = 80


@lru_cache(maxsize=4)  # of a millisecond: many ids are made in one
def _time_part(milliseconds: int) -> str:
    return "".join([_PAIRS[milliseconds >> shift & 1023] for shift in range(40, -10, -10)])


def new_id(prefix: str) -> str:
    """Make a fresh id, `<prefix>_<26 characters>`; unguessable (80 random bits), never parsed."""
    bits = int.from_bytes(os.urandom(_RANDOM_BITS // 8), "big")
    pairs = _PAIRS
    return (
        f"{prefix}_{_time_part(time.time_ns() // 1_000_000)}"
        f"{pairs[bits >> 70]}{pairs[bits >> 60 & 1023]}{pairs[bits >> 50 & 1023]}{pairs[bits >> 40 & 1023]}"
        f"{pairs[bits >> 30 & 1023]}{pairs[bits >> 20 & 1023]}{pairs[bits >> 10 & 1023]}{pairs[bits & 1023]}"
    )
