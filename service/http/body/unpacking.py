"""Bodies with a content coding: unpacked on the routes of telemetry, never beyond a limit (threat 20, G-142, G-206).

SDKs pack their requests. No packed body is believed about its size. Unpacking ends at the first byte beyond the limit,
so a small body costs no more than a large one may, at any ratio. A body is unpacked a piece at a time. It takes no more
memory than a piece.
"""

import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from io import BytesIO
from typing import Protocol

import brotli

from service.auth.refusals import InvalidPayload
from service.fairness.offload import LARGE, Apart
from service.fairness.semaphore import Holding
from service.http.answer.errors import PayloadTooLarge, UnsupportedMediaType
from service.http.declare.endpoint import Operation
from service.http.declare.headers import Head
from service.packing import zstd

WINDOW_LOG = 23
"""A zstd body may ask its reader to look back on 2**23 bytes (8 MiB). RFC 8878 recommends to support as many."""

MAX_MEMBERS = 16
"""Packed pieces that one body may be put together from."""

PIECE = 128 * 1024
"""Bytes that come out of a body together."""

_PACKED_PIECE = 64 * 1024  # bytes of a packed body that are read together
_MOST_EMPTY = 16  # steps of a coding without a byte after which others have their turn

_GZIP = 16 + zlib.MAX_WBITS
_ZLIB = zlib.MAX_WBITS
_RAW_DEFLATE = -zlib.MAX_WBITS
_PRESET_DICTIONARY = 0x20  # a flag of a zlib header; nobody has agreed on one
_ZLIB_CHECK = 31  # divides the header of a zlib body
_ZSTD: Mapping[int, int] = {zstd.DecompressionParameter.window_log_max: WINDOW_LOG}


class PackedSource(Protocol):
    """Where a body is read from: a file, or what looks like one."""

    def read(self, size: int, /) -> bytes:
        """At most so many bytes; none at the end."""


class _Malformed(Exception):
    """A body that is not what its coding says."""


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


class Unpacked:
    """A body without its content coding, read a piece at a time; `ended` once nothing follows.

    `encoding` is any spelling of a coding, "" for none. Raises UnsupportedMediaType for any that is not taken.
    """

    def __init__(self, source: PackedSource, encoding: str, most: int) -> None:
        self._coding = coding_of(encoding)
        self._most = most
        self._left = most
        self._pieces = _READERS[self._coding](source) if self._coding else _plain(source)
        self.ended = False

    def read(self) -> bytes:
        """The next piece, of about PIECE bytes at most; it may be empty before the end.

        Raises InvalidPayload when the body is not of its coding or ends early, and PayloadTooLarge at the first byte
        beyond the limit.
        """
        try:
            piece = self._next()
        except (_Malformed, zlib.error, brotli.error, zstd.ZstdError):
            reason = f"the body must be what its Content-Encoding says, {self._coding}, and complete"
            raise InvalidPayload("The body cannot be unpacked.", invalid=[("", reason)]) from None
        self._left -= len(piece)
        if self._left < 0:
            if not self._coding:
                raise PayloadTooLarge(max_bytes=self._most)
            raise PayloadTooLarge(next_action="Send less. The limit counts unpacked bytes.", max_bytes=self._most)
        return piece

    def _next(self) -> bytes:
        piece: bytes | None = b""
        for _ in range(_MOST_EMPTY):
            piece = next(self._pieces, None)
            if piece != b"":
                break
        self.ended = piece is None
        return piece or b""


def decompress(body: bytes, encoding: str, most: int) -> bytes:
    """Unpack a body of one content coding to at most `most` bytes. Raises as Unpacked. Pure."""
    unpacked = Unpacked(BytesIO(body), encoding, most)
    pieces: list[bytes] = []
    while not unpacked.ended:
        pieces.append(unpacked.read())
    return b"".join(pieces)


async def unpack(operation: Operation, tenant: str, head: Head, raw: bytes, room: Holding, apart: Apart) -> bytes:
    """Take the content coding off a body, where the operation has it; one that turns out to be large apart.

    What comes out takes its place in `room` beside the body. One thread unpacks for everybody, so that no more than
    one body has a place that is not counted yet. Raises as `decompress` and `room`.
    """
    encoding = head.headers.get("content-encoding")
    most = max(operation.body.unpacked, operation.body.largest_form)
    if not raw or not encoding or not most:
        return raw
    unpacked = _small(raw, encoding, min(most, LARGE))
    if unpacked is None:  # It waits here for its turn, without the reader of before, which looks back on megabytes.
        unpacked = await apart.run(tenant, partial(decompress, raw, encoding, most))
    room.take(len(unpacked))
    return unpacked


def _small(raw: bytes, encoding: str, most: int) -> bytes | None:
    """Unpack a body. None for one with more than `most` bytes."""
    with suppress(PayloadTooLarge):
        return decompress(raw, encoding, most)
    return None


def _plain(source: PackedSource) -> Iterator[bytes]:
    while piece := source.read(PIECE):
        yield piece


def _inflated(source: PackedSource, form: int, begin: bytes = b"") -> Iterator[bytes]:
    """Unpack members of a form of zlib's, one after the other."""
    held = begin or source.read(_PACKED_PIECE)
    for _ in range(MAX_MEMBERS):
        member = zlib.decompressobj(form)
        while not member.eof:
            piece = member.decompress(held, PIECE)
            yield piece
            held = member.unconsumed_tail or (b"" if member.eof else source.read(_PACKED_PIECE))
            if not held and not piece and not member.eof:
                raise _Malformed
        held = member.unused_data or source.read(_PACKED_PIECE)
        if not held:
            return
    raise _Malformed


def _gzip(source: PackedSource) -> Iterator[bytes]:
    return _inflated(source, _GZIP)


def _deflate(source: PackedSource) -> Iterator[bytes]:
    """RFC 9110 means zlib's form by this name; some senders leave out its frame, and are understood as well."""
    begin = source.read(_PACKED_PIECE)
    return _inflated(source, _ZLIB if _has_zlib_header(begin) else _RAW_DEFLATE, begin)


def _has_zlib_header(body: bytes) -> bool:
    return (
        len(body) > 1
        and body[0] & 0x0F == zlib.DEFLATED
        and not body[1] & _PRESET_DICTIONARY
        and int.from_bytes(body[:2]) % _ZLIB_CHECK == 0
    )


def _brotli(source: PackedSource) -> Iterator[bytes]:
    """Unpack one stream (RFC 7932). Its reader looks back on at most 16 MiB; the library refuses what follows it."""
    decoder = brotli.Decompressor()
    while not decoder.is_finished():
        hungry = decoder.can_accept_more_data()
        held = source.read(_PACKED_PIECE) if hungry else b""
        piece = decoder.process(held, output_buffer_limit=PIECE)
        if hungry and not held and not piece and not decoder.is_finished():
            raise _Malformed
        yield piece
    if source.read(1):
        raise _Malformed


def _zstd(source: PackedSource) -> Iterator[bytes]:
    """Unpack frames (RFC 8878), one after the other. Those without content count as well."""
    held = source.read(_PACKED_PIECE)
    for _ in range(MAX_MEMBERS):
        frame = zstd.ZstdDecompressor(options=_ZSTD)
        while not frame.eof:
            if frame.needs_input and not (held := held or source.read(_PACKED_PIECE)):
                raise _Malformed
            yield frame.decompress(held, PIECE)
            held = b""
        held = frame.unused_data or source.read(_PACKED_PIECE)
        if not held:
            return
    raise _Malformed


_READERS: Mapping[str, Callable[[PackedSource], Iterator[bytes]]] = {
    "br": _brotli,
    "deflate": _deflate,
    "gzip": _gzip,
    "x-gzip": _gzip,  # the same, by RFC 9110
    "zstd": _zstd,
}

CODINGS = tuple(sorted(_READERS))
"""Every content coding that is taken."""
