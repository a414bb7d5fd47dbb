"""What a large log event says is stored compressed: only all of it is ever asked for (see decisions).

The database keeps small values as `jsonb`, which it can be asked about. Of a large one that took it twenty times as
long as all the rest of a record: parsing, laying out, compressing. Packed is JSON text in one frame of zstd, which
tells the size of its content.
"""

import sys
import threading
from collections.abc import Mapping
from typing import Any

import msgspec

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["LARGEST", "PACKED_FROM", "pack", "unpack", "unpack_frame", "unpacked_size", "zstd"]

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
        compressor = _own.compressor = zstd.ZstdCompressor(level=_LEVEL)
    packed: bytes = compressor.compress(text, zstd.ZstdCompressor.FLUSH_FRAME)
    return packed


def unpack(packed: bytes) -> dict[str, Any]:
    """Return the object that was packed. Raises zstd.ZstdError and msgspec.DecodeError for anything else."""
    size = zstd.get_frame_info(packed).decompressed_size
    if size is None or size > LARGEST:
        raise zstd.ZstdError("The frame does not tell a size that a record may have.")
    value: dict[str, Any] = msgspec.json.decode(unpack_frame(packed, size), type=dict[str, Any])
    return value


def unpack_frame(packed: bytes, most: int) -> bytes:
    """Decompress one whole frame. Raises zstd.ZstdError for another one, or one of more than `most` bytes."""
    frame = zstd.ZstdDecompressor()
    content = frame.decompress(packed, most)
    if not frame.eof:
        raise zstd.ZstdError("The frame is cut off, or its content is too large.")
    return content


def unpacked_size(packed: bytes) -> int:
    """How many bytes of text unpack would make, by its frame. 0 if the frame gives no size."""
    return zstd.get_frame_info(packed).decompressed_size or 0
