"""The envelope in which Sentry's SDKs send: a line of headers, then items, each a line of headers and a payload.

An item that says its length has so many bytes, then the end of its line or of the envelope; any other ends with its
line. Empty lines may follow the last item. What is not so is refused, with the number of the item at fault. An item is
read while its bytes arrive, and those that nobody wants are passed over, so that an envelope of any size takes no more
memory than the items that are kept. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from service.ingest.foreign.pieces import NOTHING, PieceReader, Waits
from service.ingest.foreign.surrogates import FAULTS, decode_any

MAX_ITEMS = 1000
MAX_HEADER = 16 * 1024  # bytes of one line of headers
MINIDUMP = "minidump"
"""Type of an attachment that is the minidump of a crash."""
_ATTACHED_DUMP = "event.minidump"
MAX_DUMP = 20 * 1024 * 1024
"""Bytes of the begin of a minidump that are read."""
_LINE = b"\n"
_ENDLESS = 2**62  # more than any body has


class MalformedEnvelope(Exception):
    """What came is no envelope; the text says why."""


class TooManyEnvelopeItems(Exception):
    """An envelope of more than MAX_ITEMS items."""


class Header(msgspec.Struct, frozen=True):
    """What is read of an envelope's headers."""

    event_id: str | None = None
    dsn: str | None = None
    sent_at: Any = None


class _ItemHeader(msgspec.Struct, frozen=True):
    type: str
    length: Annotated[int, Meta(ge=0)] | None = None
    attachment_type: Any = None

    @property
    def kind(self) -> str:
        """The type, and for a minidump that."""
        return MINIDUMP if self.attachment_type == _ATTACHED_DUMP else self.type


class EnvelopeItem(NamedTuple):
    """An item of an envelope: its type, its bytes, and its payload as it came, None for one that is not kept.

    `begin` has the first bytes of a minidump.
    """

    type: str
    size: int
    payload: bytes | None
    begin: bytearray | None = None


_header = msgspec.json.Decoder(Header).decode
_item_header = msgspec.json.Decoder(_ItemHeader).decode


def read_header(raw: bytes) -> Header:
    """Read the first line of an envelope, of which this is the beginning. Raises MalformedEnvelope."""
    line = raw[: MAX_HEADER + 1].partition(_LINE)[0]
    return _header_of(line)


def _header_of(line: bytes) -> Header:
    if len(line) > MAX_HEADER:
        raise _too_long("the envelope")
    header: Header = _decoded(_header, line, "the envelope")
    return header


class EnvelopeReader(PieceReader):
    """Takes an envelope apart while its pieces arrive: `header`, then `items`, one after the other.

    `keep` gives the bytes kept of an item by its type. A longer one has no payload. None: it is passed over. The items
    before a fault stay. Faults: MalformedEnvelope, TooManyEnvelopeItems.
    """

    def __init__(self, keep: Callable[[str], int | None]) -> None:
        self.header = Header()
        self.items: list[EnvelopeItem] = []
        self._keep = keep
        super().__init__()

    def _read(self) -> Waits:
        pieces = self._pieces
        self.header = _header_of((yield from self._line("the envelope")))
        while True:
            whose = f"item {len(self.items)}"
            empty = False  # whether there were empty lines, which only the end may have
            while (pieces.here or not (yield from pieces.ended())) and pieces.text[pieces.at] == _LINE[0]:
                pieces.at = len(pieces.text) - len(pieces.text[pieces.at :].lstrip(_LINE))
                empty = True
            if not pieces.here and (yield from pieces.ended()):
                return
            if len(self.items) == MAX_ITEMS:
                raise TooManyEnvelopeItems
            line = b"" if empty else (yield from self._line(whose))
            said: _ItemHeader = _decoded(_item_header, line, whose)
            kind, begin = said.kind, None
            most = self._keep(kind)
            if kind == MINIDUMP and most is not None:
                begin, most = bytearray(), None
            pieces.begin(NOTHING if most is None else most)
            size = yield from self._payload(said.length, whose, begin)
            self.items.append(EnvelopeItem(kind, size, pieces.taken(), begin))
            if pieces.here or not (yield from pieces.ended()):
                if pieces.text[pieces.at] != _LINE[0]:
                    raise MalformedEnvelope(f"{whose} must be as long as it says: it goes on")
                pieces.at += 1

    def _line(self, whose: str) -> Generator[None, None, bytes]:
        """The line that begins here, and go to the next one."""
        pieces = self._pieces
        end = pieces.text.find(_LINE, pieces.at, pieces.at + MAX_HEADER + 1)
        if end >= 0:  # Of most envelopes each line is there as a whole.
            line, pieces.at = pieces.text[pieces.at : end], end + 1
            return line
        pieces.begin(MAX_HEADER)
        yield from self._to_line_end(MAX_HEADER + 1)
        if (kept := pieces.taken()) is None:
            raise _too_long(whose)
        if not (yield from pieces.ended()):
            pieces.at += 1
        return kept

    def _to_line_end(self, most: int) -> Generator[None, None, int]:
        """Go to the end of the line or of the text, or `most` bytes. Returns how far that is."""
        pieces, size = self._pieces, 0
        while size < most and not (yield from pieces.ended()):
            end = pieces.text.find(_LINE, pieces.at, pieces.at + most - size)
            to = min(len(pieces.text), pieces.at + most - size) if end < 0 else end
            size += to - pieces.at
            pieces.at = to
            if end >= 0:
                break
        return size

    def _payload(self, length: int | None, whose: str, begin: bytearray | None) -> Generator[None, None, int]:
        """Go behind a payload. The first MAX_DUMP bytes of a known length come into `begin`. Returns its bytes."""
        if length is None:
            return (yield from self._to_line_end(_ENDLESS))
        pieces, left = self._pieces, length
        while left:
            if not pieces.here and (yield from pieces.ended()):
                raise MalformedEnvelope(f"{whose} must be as long as it says: it ends early")
            step = min(left, len(pieces.text) - pieces.at)
            if begin is not None:
                begin += pieces.text[pieces.at : pieces.at + min(step, MAX_DUMP - len(begin))]
            pieces.at += step
            left -= step
        return length


def _too_long(whose: str) -> MalformedEnvelope:
    return MalformedEnvelope(f"the headers of {whose} must be one line of at most {MAX_HEADER} bytes")


def _decoded(decode: Any, line: bytes, whose: str) -> Any:
    try:
        return decode_any(decode, line)
    except FAULTS:
        raise MalformedEnvelope(f"the headers of {whose} must be a JSON object of the documented form") from None
