"""A form with files, read while its bytes arrive (RFC 7578). Pure.

Of each part as many bytes are kept as its reader has room for, and the others are passed over. So a form of any size
takes no more memory than its kept parts.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import NamedTuple

from service.ingest.foreign.pieces import PieceReader, Waits
from service.multipart import MOST_HEADER, MalformedForm, place_of

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
            name, is_file = place.get("name"), "filename" in place
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
