"""Ids of things: a prefix and a lowercase ULID (G-002)."""

from __future__ import annotations

import os
import time

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [first + second for first in _DIGITS for second in _DIGITS]  # ten bits at a time: ids are made on hot paths
_SHIFTS = range(120, -10, -10)


def new_id(prefix: str) -> str:
    """Make a fresh id, `<prefix>_<26 characters>`; unguessable (80 random bits), never parsed."""
    number = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    return prefix + "_" + "".join([_PAIRS[number >> shift & 1023] for shift in _SHIFTS])
