"""The envelope in which Sentry's SDKs send: a line of headers, then items, each a line of headers and a payload.

An item that says its length has so many bytes, then the end of its line or of the envelope; any other ends with its
line. Empty lines may follow the last item. What is not so is refused, with the number of the item at fault. An item is
read while its bytes arrive, and those that nobody wants are passed over, so that an envelope of any size takes no more
memory than the items that are kept. Pure.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from service.ingest.foreign.common import FAULTS, decode_any
from service.multipart import MOST_HEADER, MalformedForm, place_of

# Texts read while their pieces arrive. Bytes behind the reader are forgotten, unless it asks to keep them. A reader is
# a generator, which waits for the next piece wherever it is. So it may stop between any two bytes.

Waits = Generator[None, None, None]


NOTHING = -1
"""Bytes to keep of an unwanted value."""


class TextEnded(Exception):
    """The text ends where more must follow."""


class Pieces:
    """The present part of a text, and the place of its reader.

    From a mark on nothing is forgotten, until it is more than `keep` bytes: then the mark is taken off.
    """

    def __init__(self) -> None:
        self.text = b""
        self.at = 0
        self.over = False
        self.mark: int | None = None
        self.keep = 0

    def feed(self, piece: bytes) -> None:
        """Add a piece, and forget the bytes behind the reader."""
        if self.mark is not None and self.at - self.mark > self.keep:
            self.mark = None
        begin = self.at if self.mark is None else self.mark
        self.text = self.text[begin:] + piece
        self.at -= begin
        if self.mark is not None:
            self.mark = 0

    def begin(self, keep: int) -> None:
        """Keep the following bytes, at most so many."""
        self.mark, self.keep = self.at, keep

    def taken(self) -> bytes | None:
        """The bytes since the mark. None for too many. The mark is taken off."""
        mark, self.mark = self.mark, None
        return None if mark is None or self.at - mark > self.keep else self.text[mark : self.at]

    def more(self) -> Waits:
        """Wait for a piece. Raises TextEnded when none follows."""
        if self.over:
            raise TextEnded
        yield

    @property
    def here(self) -> bool:
        """Whether the next byte is there. Spares a generator."""
        return self.at < len(self.text)

    def ended(self) -> Generator[None, None, bool]:
        """Whether nothing follows. Waits for a piece, unless something does."""
        while self.at >= len(self.text) and not self.over:
            yield
        return self.at >= len(self.text)


class PieceReader(ABC):
    """A reader of pieces. `close` gives up the unread rest.

    Waiting for a piece, a reader holds itself and the piece before, until the garbage collector comes by: an abandoned
    body would stay for long (P25).
    """

    def __init__(self) -> None:
        self._pieces = Pieces()
        self._reading = self._read()

    @abstractmethod
    def _read(self) -> Waits:
        """Read the text from its begin to its end."""

    def feed(self, piece: bytes) -> None:
        """Read a piece. Raises the faults of the text."""
        self._pieces.feed(piece)
        next(self._reading)

    def end(self) -> None:
        """Say that nothing follows. Raises as `feed`."""
        self._pieces.over = True
        for _ in self._reading:
            raise AssertionError

    def close(self) -> None:
        """Stop to wait for pieces."""
        with suppress(ValueError):  # a thread reads just now: its request went away
            self._reading.close()


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


# A form with files, read while its bytes arrive (RFC 7578). Pure. Of each part as many bytes are kept as its reader
# has room for, and the others are passed over. So a form of any size takes no more memory than its kept parts.

MAX_PARTS = 1000
_BLANK = b"\r\n\r\n"
_END = b"--"


class TooManyParts(Exception):
    """A form of more than MAX_PARTS parts."""


class FormPart(NamedTuple):
    """A part: its name, whether it is a file, its bytes in all, and the kept ones from its begin. None: passed over."""

    name: str | None
    is_file: bool
    size: int
    content: bytes | bytearray | None

    @property
    def whole(self) -> bytes | bytearray | None:
        """All of its bytes. None unless they are kept."""
        return self.content if self.content is not None and len(self.content) == self.size else None


class FormReader(PieceReader):
    """Takes a form apart while its pieces arrive: `parts`, one after the other.

    `room` gives the bytes to keep of a part by its name and whether it is a file, or None. Faults: MalformedForm,
    TooManyParts.
    """

    def __init__(self, boundary: bytes, room: Callable[[str | None, bool], int | None]) -> None:
        self.parts: list[FormPart] = []
        self._boundary = boundary
        self._room = room
        super().__init__()
        self._pieces.feed(b"\r\n")  # A form may begin with its boundary.

    def _read(self) -> Waits:
        pieces = self._pieces
        yield from self._content(None)
        while (headers := (yield from self._headers())) is not None:
            if len(self.parts) == MAX_PARTS:
                raise TooManyParts
            place = place_of(headers)
            name, is_file = place.name, place.filename is not None
            room = self._room(name, is_file)
            kept = None if room is None else bytearray()
            size = yield from self._content(kept, room or 0)
            self.parts.append(FormPart(name, is_file, size, kept))
        while not pieces.over:  # Nothing behind the end counts.
            pieces.at = len(pieces.text)
            yield

    def _headers(self) -> Generator[None, None, bytes | None]:
        """The headers of the part behind a boundary. None at the end of the form."""
        pieces = self._pieces
        while True:
            if pieces.text.startswith(_END, pieces.at):
                return None
            end = pieces.text.find(_BLANK, pieces.at, pieces.at + MOST_HEADER + len(_BLANK))
            if end >= 0:
                headers, pieces.at = pieces.text[pieces.at : end], end + len(_BLANK)
                return headers
            if len(pieces.text) - pieces.at >= MOST_HEADER + len(_BLANK):
                raise MalformedForm(f"must have parts whose headers end within {MOST_HEADER} bytes")
            if pieces.over:
                raise MalformedForm("must be a whole form")
            yield

    def _content(self, kept: bytearray | None, most: int = 0) -> Generator[None, None, int]:
        """Go behind the next boundary, and keep at most so many bytes before it. Returns how many there are."""
        pieces, size = self._pieces, 0
        while True:
            found = pieces.text.find(self._boundary, pieces.at)
            # The begin of a boundary may be the end of what is here.
            end = found if found >= 0 else max(pieces.at, len(pieces.text) - len(self._boundary) + 1)
            if kept is not None and len(kept) < most:
                kept += pieces.text[pieces.at : min(end, pieces.at + most - len(kept))]
            size += end - pieces.at
            pieces.at = end
            if found >= 0:
                pieces.at += len(self._boundary)
                return size
            if pieces.over:
                raise MalformedForm("must be a whole form")
            yield
