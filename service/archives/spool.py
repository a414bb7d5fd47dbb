"""The file of an archive while it is made and sent: a tar file without a name.

Nothing finds a file without a name, so nothing of an archive outlives its process, however that ends. A part is
readable once it is whole: its header, which holds its length, is written last.
"""

import hashlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

BLOCK = 512
FREE_BYTES = 1 << 30
"""Bytes that an archive leaves free on its disk: others need it too."""
LOOK_BYTES = 16 << 20
"""Bytes between two looks at the free space."""


class ArchiveFull(Exception):
    """The archive has as many bytes as one may have."""


class DiskNearlyFull(Exception):
    """The archive would take the disk from others."""


class ArchivePart(NamedTuple):
    """A file in the archive, as the manifest lists it. `lines` are its line ends."""

    name: str
    sha256: str
    bytes: int
    lines: int


class Spool:
    """A tar file that grows. One thread writes at a time, and any number read up to `ready`."""

    def __init__(self, directory: Path | None, most: int) -> None:
        self._file = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115 - closed by `close`
        self.most = most
        self._looked_at = 0
        self._began = 0  # where the part under way has its header
        self._name = ""
        self._hash = hashlib.sha256()
        self._lines = 0
        self.modified_at = 0
        self.size = 0
        self.ready = 0
        self.parts: list[ArchivePart] = []

    def begin(self, name: str) -> None:
        """Begin a part."""
        self._name, self._began, self._lines, self._hash = name, self.size, 0, hashlib.sha256()
        self._file.write(bytes(BLOCK))
        self.size += BLOCK

    @property
    def length(self) -> int:
        """Bytes of the part under way."""
        return self.size - self._began - BLOCK

    def write(self, data: bytes) -> None:
        """Add to the part under way. Raises ArchiveFull, DiskNearlyFull, and OSError of the disk."""
        if self.size + len(data) > self.most:
            raise ArchiveFull
        if self.size - self._looked_at >= LOOK_BYTES:
            self._look()
        self._file.write(data)
        self._hash.update(data)
        self._lines += data.count(b"\n")
        self.size += len(data)

    def end(self) -> None:
        """End the part under way, and let it be read."""
        length = self.length
        self._pad(length)
        self._file.flush()
        os.pwrite(self._file.fileno(), header(self._name, length, self.modified_at), self._began)
        self.parts.append(ArchivePart(self._name, self._hash.hexdigest(), length, self._lines))
        self.ready = self.size

    def add(self, name: str, data: bytes) -> None:
        """Add a whole part."""
        self.begin(name)
        self.write(data)
        self.end()

    def finish(self) -> None:
        """End the tar file."""
        self._file.write(bytes(2 * BLOCK))
        self._file.flush()
        self.size += 2 * BLOCK
        self.ready = self.size

    def read(self, start: int, most: int) -> bytes:
        """Read bytes that are ready."""
        return os.pread(self._file.fileno(), min(most, self.ready - start), start)

    def close(self) -> None:
        """Let the disk have its space back. Nobody may write at the same time."""
        self._file.close()

    def _pad(self, length: int) -> None:
        padding = -length % BLOCK
        self._file.write(bytes(padding))
        self.size += padding

    def _look(self) -> None:
        self._looked_at = self.size
        room = os.fstatvfs(self._file.fileno())
        if room.f_bavail * room.f_frsize < FREE_BYTES:
            raise DiskNearlyFull


class LinesInParts:
    """Lines in parts of bounded length, `folder/000001.jsonl` and so on. There is at least one."""

    def __init__(self, spool: Spool, folder: str, most: int, suffix: str = "jsonl") -> None:
        self._spool = spool
        self._folder = folder
        self._suffix = suffix
        self._most = most
        self._number = 0
        self.lines = 0
        self._next()

    def write(self, lines: Iterable[bytes]) -> None:
        """Add lines, each with its end. Raises as Spool.write."""
        held: list[bytes] = []
        size = self._spool.length
        for line in lines:
            if size + len(line) > self._most:
                self._spool.write(b"".join(held))
                self._spool.end()
                self._next()
                held, size = [], 0
            held.append(line)
            size += len(line)
            self.lines += 1
        self._spool.write(b"".join(held))

    def end(self) -> None:
        """End the last part."""
        self._spool.end()

    def _next(self) -> None:
        self._number += 1
        self._spool.begin(f"{self._folder}/{self._number:06}.{self._suffix}")


def header(name: str, length: int, modified_at: int) -> bytes:
    """The one header that a part has in an archive (POSIX ustar)."""
    start = name.encode("ascii").ljust(100, b"\0") + b"0000644\x000000000\x000000000\0"
    start += b"%011o\0%011o\0" % (length, modified_at)
    rest = b"0" + bytes(100) + b"ustar\x0000" + bytes(247)
    return start + b"%06o\0 " % sum(start + b" " * 8 + rest) + rest
