"""A body that is read a piece at a time: it waits for its turn in a file without a name, not in memory (G-206, P25).

While it arrives, a few kilobytes of it are held. Its file goes with the request, however that ends.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import suppress
from io import BytesIO
from typing import Any, BinaryIO, TypeVar

from service.auth.refusals import InvalidPayload, Refusal, ServiceUnavailable
from service.fairness.offload import LARGE, Apart
from service.http.answer.errors import PayloadTooLarge
from service.http.body.unpacking import Unpacked, decompress
from service.http.declare.forms import BodyReader

T = TypeVar("T")

GZIP = b"\x1f\x8b"
"""The first bytes of what gzip has packed (RFC 1952)."""
WRITTEN_TOGETHER = 64 * 1024
"""Bytes of an arriving body that are written to its file together."""
SPOOLED_BYTES = 2 * 1024 * 1024 * 1024
"""Bytes of bodies that all files of a process may have."""
SPOOLED_SHARE = 3 * SPOOLED_BYTES // 4
"""Those of one account, or of one address that is not known yet: room for 64 bodies of 20 MB."""


class Upload:
    """A body as it was sent: in memory while it is small, else in a file. `with` gives the file back.

    `fault`: why it ends before its end; what was there before may count. `found` is the search for its key.
    """

    def __init__(self, raw: bytes = b"") -> None:
        self._raw: bytes | None = raw
        self._file: BinaryIO | None = None
        self._begin = raw[:2]
        self.size = len(raw)
        self.encoding = ""
        self.most = len(raw)
        self.fault: Refusal | None = None
        self.found: Any = None
        self._readers: list[BodyReader[Any]] = []

    @property
    def whole(self) -> bytes | None:
        """All of a small body in memory, without a content coding. None for any other."""
        return self._raw if self.size <= LARGE and not self.encoding else None

    @property
    def small(self) -> bool:
        """Whether it is worked on in the event loop."""
        return self.whole is not None

    @property
    def held(self) -> bool:
        """Whether it is in memory as it will be read."""
        return not self.encoding and self._raw is not None

    def take_coding(self, named: str) -> None:
        """Set the content coding: the one that is named, or gzip where its bytes say so. No JSON and no form begins so.

        PostHog's SDK for browsers names none. `named` is "" for none.
        """
        self.encoding = named or ("gzip" if self._begin == GZIP else "")

    def unpack_small(self) -> None:
        """Take the content coding off one that turns out to be small. Raises InvalidPayload as `decompress`."""
        if self.encoding and self._raw is not None:
            with suppress(PayloadTooLarge):
                self.hold(decompress(self._raw, self.encoding, min(self.most, LARGE)))
                self.encoding = ""

    def hold(self, raw: bytes) -> None:
        """Take all of a body that has turned out to be small."""
        self._raw, self._begin, self.size = raw, raw[:2], len(raw)

    async def add(self, piece: bytes) -> None:
        """Write a piece to the file. Raises ServiceUnavailable when the disk has no room."""
        writing = asyncio.get_running_loop().run_in_executor(None, self._write, piece)
        try:
            await asyncio.shield(writing)
        except OSError:
            raise ServiceUnavailable from None
        except asyncio.CancelledError:  # the thread goes on, and may make the file only now
            writing.add_done_callback(self._close_after)
            raise
        self.size += len(piece)

    def _close_after(self, writing: asyncio.Future[None]) -> None:
        if not writing.cancelled():
            writing.exception()  # nobody waits for it
        self.close()

    def _write(self, piece: bytes) -> None:
        if self._file is None:
            self._begin = piece[:2]
            self._raw, self._file = None, tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        self._file.write(piece)

    def close(self) -> None:
        """Give the file back, and forget the parts in memory and in the hands of readers."""
        self._raw = None
        for reader in self._readers:
            reader.close()
        if self._file is not None:
            self._file.close()

    def read_by(self, reader: BodyReader[Any]) -> None:
        """Close a reader with the body."""
        self._readers.append(reader)

    def open(self) -> Unpacked:
        """Read it from its begin, without its content coding. Raises UnsupportedMediaType."""
        source = BytesIO(self._raw or b"") if self._file is None else self._file
        source.seek(0)
        return Unpacked(source, self.encoding, self.most)


async def read_pieces(upload: Upload, apart: Apart, tenant: str, reader: BodyReader[T]) -> AsyncIterator[T]:
    """Feed the pieces of an upload to a reader, apart from the event loop unless it is small.

    A small one is one piece. At the end the piece is empty. Raises what the reader and the unpacking raise, and the
    upload's fault.
    """
    upload.read_by(reader)
    if (whole := upload.whole) is not None:
        for piece in (whole, b"") if whole else (b"",):
            if (found := reader.feed(piece)) is not None:
                yield found
        return
    unpacked = upload.open()

    def step() -> T | None:
        piece = unpacked.read()
        if unpacked.ended and upload.fault is not None:
            raise upload.fault
        return reader.feed(piece) if piece or unpacked.ended else None

    while not unpacked.ended:
        try:
            done = await apart.run(tenant, step)
        except InvalidPayload:
            if upload.fault is not None:
                raise upload.fault from None
            raise
        if done is not None:
            yield done
