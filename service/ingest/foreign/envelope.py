"""The envelope in which Sentry's SDKs send: a line of headers, then items, each a line of headers and a payload.

An item that says its length has so many bytes, then the end of its line or of the envelope; any other ends with its
line. Empty lines may follow the last item. What is not so is refused whole, with the number of the item at fault, so
that nothing of it is taken. Pure.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from service.ingest.foreign.surrogates import FAULTS, decode_any

MAX_ITEMS = 1000
MAX_HEADER = 16 * 1024  # bytes of one line of headers
_LINE = b"\n"


class MalformedEnvelope(Exception):
    """What came is no envelope; the text says why."""


class TooManyEnvelopeItems(Exception):
    """An envelope of more than MAX_ITEMS items."""


class Header(msgspec.Struct, frozen=True):
    """What is read of an envelope's headers."""

    event_id: str | None = None
    dsn: str | None = None


class _ItemHeader(msgspec.Struct, frozen=True):
    type: str
    length: Annotated[int, Meta(ge=0)] | None = None


class EnvelopeItem(NamedTuple):
    """An item of an envelope: its type, and its payload as it came."""

    type: str
    payload: bytes


class SentryEnvelope(NamedTuple):
    """An envelope taken apart."""

    header: Header
    items: tuple[EnvelopeItem, ...]


_header = msgspec.json.Decoder(Header).decode
_item_header = msgspec.json.Decoder(_ItemHeader).decode


def read_header(raw: bytes) -> Header:
    """Read the first line of an envelope. Raises MalformedEnvelope."""
    line, _ = _line(raw, 0, "the envelope")
    header: Header = _decoded(_header, line, "the envelope")
    return header


def parse(raw: bytes) -> SentryEnvelope:
    """Take an envelope apart. Raises MalformedEnvelope, and TooManyEnvelopeItems."""
    line, at = _line(raw, 0, "the envelope")
    header: Header = _decoded(_header, line, "the envelope")
    items: list[EnvelopeItem] = []
    end = len(raw.rstrip(_LINE))
    while at < end:
        if len(items) == MAX_ITEMS:
            raise TooManyEnvelopeItems
        whose = f"item {len(items)}"
        line, at = _line(raw, at, whose)
        said: _ItemHeader = _decoded(_item_header, line, whose)
        payload, at = _payload(raw, at, said.length, whose)
        items.append(EnvelopeItem(said.type, payload))
        end = max(end, at)  # a payload of a length that was said may end with empty lines
    return SentryEnvelope(header, tuple(items))


def _line(raw: bytes, at: int, whose: str) -> tuple[bytes, int]:
    """The line that begins at a place, and where the next one does."""
    end = raw.find(_LINE, at, at + MAX_HEADER + 1)
    if end < 0:
        end = len(raw)
    if end - at > MAX_HEADER:
        raise MalformedEnvelope(f"the headers of {whose} must be one line of at most {MAX_HEADER} bytes")
    return raw[at:end], min(end + 1, len(raw))


def _payload(raw: bytes, at: int, length: int | None, whose: str) -> tuple[bytes, int]:
    if length is None:
        end = raw.find(_LINE, at)
        end = len(raw) if end < 0 else end
    else:
        end = at + length
        if end > len(raw):
            raise MalformedEnvelope(f"{whose} must be as long as it says: it ends early")
        if end < len(raw) and raw[end : end + 1] != _LINE:
            raise MalformedEnvelope(f"{whose} must be as long as it says: it goes on")
    return raw[at:end], min(end + 1, len(raw))


def _decoded(decode: Any, line: bytes, whose: str) -> Any:
    try:
        return decode_any(decode, line)
    except FAULTS:
        raise MalformedEnvelope(f"the headers of {whose} must be a JSON object of the documented form") from None
