"""Canonical JSON (RFC 8785): the one form of a value that hashes are taken of.

The rfc8785 library is right for everything and slow for all of it. Over values without floats and without keys
beyond the Basic Multilingual Plane (where order by UTF-16 and by code point part), msgspec's sorted encoding is byte
for byte the same at a fiftieth of the cost; a property test holds the two together.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import rfc8785

_sorted = msgspec.json.Encoder(order="sorted")


def canonical_payload(value: Any) -> bytes:
    """Encode a struct or plain value that is known to hold no float, and only ASCII keys."""
    return _sorted.encode(value)


def canonical(value: Any) -> bytes:
    """Encode any plain value (what a JSON parser makes). Raises rfc8785.CanonicalizationError for what has no form."""
    return _sorted.encode(value) if _is_plain(value) else rfc8785.dumps(value)


def canonical_sha256(value: Any) -> str:
    """Hash the canonical form, in lowercase hex."""
    return hashlib.sha256(canonical(value)).hexdigest()


def _is_plain(value: Any) -> bool:
    kind = type(value)
    if kind is dict:
        return all(type(key) is str and key.isascii() and _is_plain(item) for key, item in value.items())
    if kind is list or kind is tuple:
        return all(map(_is_plain, value))
    if kind is int:
        return bool(-(2**53) < value < 2**53)
    return isinstance(value, str | bool | None)
