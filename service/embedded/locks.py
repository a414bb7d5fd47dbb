"""File locks around the embedded server: the kernel releases them however a process ends.

Three locks, taken in this order when together. `supervisor`: held by the one `service serve` of a data directory.
`change`: held for the moment in which a server is made, started or stopped. `users`: held shared by each process
that needs the server; who leaves last (gets it exclusively) stops the server.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class Busy(Exception):
    """Another process holds the lock."""


class FileLock:
    """An advisory lock on a file that stays. Children do not inherit it (descriptors close on exec)."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def take(self, *, shared: bool = False, wait_seconds: float = 0) -> None:
        """Take the lock, trying for `wait_seconds`. Raises Busy. Changing from shared drops the shared lock first."""
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        give_up = time.monotonic() + wait_seconds
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(self._descriptor, kind | fcntl.LOCK_NB)
                return
            if time.monotonic() >= give_up:
                raise Busy
            time.sleep(0.02)

    def write(self, text: str) -> None:
        """Write a note for processes that find the lock held."""
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, text.encode(), 0)

    def read(self) -> str:
        """The note of the holder."""
        return os.pread(self._descriptor, 4096, 0).decode()

    def close(self) -> None:
        """Release the lock."""
        os.close(self._descriptor)


@contextmanager
def held(path: Path, *, wait_seconds: float) -> Iterator[None]:
    """Hold a lock exclusively for a block. Raises Busy."""
    lock = FileLock(path)
    try:
        lock.take(wait_seconds=wait_seconds)
        yield
    finally:
        lock.close()
