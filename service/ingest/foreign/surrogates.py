r"""Lone surrogates in JSON, such as the half of an emoji: the decoder refuses a whole body for one of them (G-175).

Each is replaced by `\u0000` before a body is cut. The decoder takes that, and the gate finds the record with it and
has it adjusted as it adjusts the surrogate itself: U+FFFD, counted and named (G-133). So the other records stay as
they were sent. Both have six bytes, so no place in the text moves. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

FAULTS = (ValueError, RecursionError)
"""Errors of a decoder: those of msgspec, and that of broken UTF-8, are ValueErrors."""

_HEX = rb"[0-9a-fA-F]"
_HIGH = rb"u[dD][89abAB]" + _HEX + rb"{2}"
_LOW = rb"u[dD][c-fC-F]" + _HEX + rb"{2}"
_ANY = rb"u[dD][89a-fA-F]" + _HEX + rb"{2}"
# All up to the next lone surrogate or, where there is none, to the end: no search begins anew from a place within.
_LONE = re.compile(
    rb"(?:[^\\]++|\\" + _HIGH + rb"\\" + _LOW + rb"|\\(?!" + _ANY + rb").)*+(?:\\(?P<lone>" + _ANY + rb")|\\?\Z)",
    re.DOTALL,
)
_NUL = b"u0000"


def without_lone(raw: bytes) -> bytes:
    """The same text with NUL in place of each lone surrogate. Linear in the text, of which one copy is made."""
    text = bytearray(raw)
    for found in _LONE.finditer(raw):
        if found["lone"] is not None:
            text[found.start("lone") : found.end("lone")] = _NUL
    return bytes(text)


def decode_any(decode: Callable[[bytes], T], raw: bytes) -> T:
    """Decode a text, one with lone surrogates as if they were NUL. Raises ValueError and RecursionError."""
    try:
        return decode(raw)
    except FAULTS:
        if b"\\ud" not in raw and b"\\uD" not in raw:
            raise
    return decode(without_lone(raw))
