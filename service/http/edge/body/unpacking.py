"""Bodies with a content coding: unpacked on the routes of telemetry, and never beyond a limit (threat 20, G-142).

SDKs pack what they send. A packed body says nothing that can be believed about how large it is, so it is given up at
the first byte beyond the limit: what a small one can cost is what a large one may cost, whatever its ratio.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from functools import partial

import zstandard

from service.auth.refusals import InvalidPayload
from service.fairness.apart import LARGE, Apart
from service.http.edge.answer.errors import PayloadTooLarge, UnsupportedMediaType
from service.http.edge.body.room import Room
from service.http.edge.declare.headers import Head
from service.http.edge.declare.operations import Operation

MAX_WINDOW = 8 * 1024 * 1024
"""Bytes that a zstd body may ask its reader to look back on; RFC 8878 recommends to support as many."""

MAX_MEMBERS = 16
"""Packed pieces that one body may be put together from."""

_GZIP = 16 + zlib.MAX_WBITS
_ZLIB = zlib.MAX_WBITS
_RAW_DEFLATE = -zlib.MAX_WBITS
_PRESET_DICTIONARY = 0x20  # a flag of a zlib header; nobody has agreed on one
_ZLIB_CHECK = 31  # divides the header of a zlib body


class _Malformed(Exception):
    """A body that is not what its coding says."""


class _TooLarge(Exception):
    """More than the limit comes out of a body."""


def coding_of(header: str | None) -> str:
    """The coding that a Content-Encoding header names; "" for none. Raises UnsupportedMediaType, naming those taken."""
    coding = (header or "").strip().lower()
    if coding in {"", "identity"}:
        return ""
    if coding not in _READERS:
        raise UnsupportedMediaType(
            "The body has a content coding that this operation does not accept.",
            next_action="Send it in one of details.content_codings, or uncompressed.",
            headers={"accept-encoding": ", ".join(CODINGS)},
            content_codings=CODINGS,
        )
    return coding


def decompress(body: bytes, encoding: str, most: int) -> bytes:
    """Unpack a body of one content coding (any spelling, "" for none) to at most `most` bytes.

    Raises UnsupportedMediaType for any other coding, InvalidPayload when the body is not of it or ends early, and
    PayloadTooLarge at the first byte beyond the limit. Pure; what it takes grows with `most`, never beyond.
    """
    coding = coding_of(encoding)
    if not coding:
        if len(body) > most:
            raise PayloadTooLarge(max_bytes=most)
        return body
    try:
        return _READERS[coding](body, most)
    except _TooLarge:
        raise PayloadTooLarge(next_action="Send less. The limit counts unpacked bytes.", max_bytes=most) from None
    except (_Malformed, zlib.error, zstandard.ZstdError):
        reason = f"the body must be what its Content-Encoding says, {coding}, and complete"
        raise InvalidPayload("The body cannot be unpacked.", invalid=[("", reason)]) from None


async def unpack(operation: Operation, tenant: str, head: Head, raw: bytes, room: Room, apart: Apart) -> bytes:
    """Take the content coding off a body, where the operation has it; one that turns out to be large apart.

    What comes out takes its place in `room` beside the body. One thread unpacks for everybody, so that no more than
    one body has a place that is not counted yet. Raises as `decompress` and `room`.
    """
    encoding = head.headers.get("content-encoding")
    most = max(operation.unpacked, operation.largest_form)
    if not raw or not encoding or not most:
        return raw
    try:
        unpacked = decompress(raw, encoding, min(most, LARGE))
    except PayloadTooLarge:
        unpacked = await apart.run(tenant, partial(decompress, raw, encoding, most))
    room.take(len(unpacked))
    return unpacked


def _inflate(body: bytes, most: int, form: int) -> bytes:
    """Unpack members of a form of zlib's, one after the other."""
    unpacked: list[bytes] = []
    for _ in range(MAX_MEMBERS):
        member = zlib.decompressobj(form)
        piece = member.decompress(body, most + 1)
        most -= len(piece)
        if most < 0:
            raise _TooLarge
        unpacked.append(piece)
        body = member.unused_data
        if not member.eof:
            break
        if not body:
            return b"".join(unpacked)
    raise _Malformed


def _gzip(body: bytes, most: int) -> bytes:
    return _inflate(body, most, _GZIP)


def _deflate(body: bytes, most: int) -> bytes:
    """RFC 9110 means zlib's form by this name; some senders leave out its frame, and are understood as well."""
    return _inflate(body, most, _ZLIB if _has_zlib_header(body) else _RAW_DEFLATE)


def _has_zlib_header(body: bytes) -> bool:
    return (
        len(body) > 1
        and body[0] & 0x0F == zlib.DEFLATED
        and not body[1] & _PRESET_DICTIONARY
        and int.from_bytes(body[:2]) % _ZLIB_CHECK == 0
    )


def _zstd(body: bytes, most: int) -> bytes:
    """Unpack frames, one after the other. A look ahead, which keeps nothing, says that all of them fit."""
    reader = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW)
    if len(reader.stream_reader(body, read_across_frames=True).read(most + 1)) > most:
        raise _TooLarge
    unpacked: list[bytes] = []
    for _ in range(MAX_MEMBERS):
        frame = reader.decompressobj()
        unpacked.append(frame.decompress(body))
        body = frame.unused_data
        if not frame.eof:
            break
        if not body:
            return b"".join(unpacked)
    raise _Malformed


_READERS: Mapping[str, Callable[[bytes, int], bytes]] = {
    "deflate": _deflate,
    "gzip": _gzip,
    "x-gzip": _gzip,  # the same, by RFC 9110
    "zstd": _zstd,
}

CODINGS = tuple(sorted(_READERS))
"""Every content coding that is taken."""
