"""Messages of protobuf by hand: such as no library would write."""

from __future__ import annotations


def field(number: int, value: bytes) -> bytes:
    """A length-delimited field."""
    size, length = len(value), bytearray()
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([number << 3 | 2, *length, size]) + value
