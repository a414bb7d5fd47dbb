"""Texts read while their pieces arrive. Bytes behind the reader are forgotten, unless it asks to keep them.

A reader is a generator, which waits for the next piece wherever it is. So it may stop between any two bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import suppress

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
