"""What a large log event says is stored compressed: only all of it is ever asked for (see decisions).

The database keeps small values as `jsonb`, which it can be asked about. Of a large one that took it twenty times as
long as all the rest of a record: parsing, laying out, compressing. Packed is JSON text in one frame of zstd, which
tells the size of its content.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import msgspec
import zstandard

PACKED_FROM = 1024
"""Bytes of JSON text from which on it is packed."""
LARGEST = 1 << 20
"""Bytes of text that unpack at most: four times what a record may hold."""
_LEVEL = 1

_encode = msgspec.json.Encoder().encode
_own = threading.local()  # A compressor serves one thread at a time, and costs more to make than to use.


def pack(value: Mapping[str, Any]) -> bytes | None:
    """Pack an object. None for a small one, which stays as it is."""
    text = _encode(value)
    if len(text) < PACKED_FROM:
        return None
    try:
        compressor = _own.compressor
    except AttributeError:
        compressor = _own.compressor = zstandard.ZstdCompressor(level=_LEVEL)
    packed: bytes = compressor.compress(text)
    return packed


def unpack(packed: bytes) -> dict[str, Any]:
    """Return the object that was packed. Raises zstandard.ZstdError and msgspec.DecodeError for anything else."""
    if not 0 <= zstandard.frame_content_size(packed) <= LARGEST:
        raise zstandard.ZstdError("The frame does not tell a size that a record may have.")
    value: dict[str, Any] = msgspec.json.decode(zstandard.ZstdDecompressor().decompress(packed), type=dict[str, Any])
    return value


def unpacked_size(packed: bytes) -> int:
    """How many bytes of text unpack would make, by its frame. 0 if the frame gives no size."""
    return max(zstandard.frame_content_size(packed), 0)
