"""Ids of things: a prefix and a lowercase ULID (G-002), or as many random digits where the id is a secret."""

import os
import time
from functools import lru_cache

MADE_AT_ONCE = 256  # random parts
RANDOM_DIGITS = 16  # of five bits each
_TIME_DIGITS = 10
_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_KNOWN_DIGITS = frozenset(_DIGITS)
_DIGIT_OF_BYTE = bytes(ord(_DIGITS[byte % 32]) for byte in range(256))  # each digit is as likely as every other


@lru_cache(maxsize=4)  # of a millisecond: many ids are made in one
def _time_part(milliseconds: int) -> str:
    return "".join([_DIGITS[milliseconds >> shift & 31] for shift in range(45, -5, -5)])


_random_parts: list[str] = []  # made in advance: each is used once, and by the process that made it
os.register_at_fork(after_in_child=_random_parts.clear)


def _random_part() -> str:
    try:
        return _random_parts.pop()
    except IndexError:
        drawn = os.urandom(RANDOM_DIGITS * MADE_AT_ONCE).translate(_DIGIT_OF_BYTE).decode()
        parts = [drawn[n : n + RANDOM_DIGITS] for n in range(0, len(drawn), RANDOM_DIGITS)]
        _random_parts.extend(parts[1:])
        return parts[0]


def new_id(prefix: str) -> str:
    """Make a fresh id, `<prefix>_<26 characters>`, with 80 random bits. Clients never parse it."""
    return f"{prefix}_{_time_part(time.time_ns() // 1_000_000)}{_random_part()}"


def random_id(prefix: str) -> str:
    """Make an id beyond guessing: `<prefix>_<26 characters>`, with 130 random bits and no time (G-163)."""
    return f"{prefix}_{os.urandom(_TIME_DIGITS + RANDOM_DIGITS).translate(_DIGIT_OF_BYTE).decode()}"


def made_at(prefix: str, id: str) -> int | None:
    """About when an id was made, in epoch seconds by the clock of its machine. None for anything but an id of the kind.

    It tells where to look first, and nothing is decided by it.
    """
    given, _, digits = id.partition("_")
    if given != prefix or len(digits) != _TIME_DIGITS + RANDOM_DIGITS or not set(digits) <= _KNOWN_DIGITS:
        return None
    milliseconds = 0
    for digit in digits[:_TIME_DIGITS]:
        milliseconds = milliseconds << 5 | _DIGITS.index(digit)
    return milliseconds // 1000
