"""Whether the database has room for what is written, as one process meets it: a line when it has not, one when it has.

A write that finds no room fails with 53100, and is told so to its caller alone; the next one may fit, and the one after
that not. So it lasts until no write has failed for a while. A process that writes nothing meets nothing: the processes
of one service tell each other, by the time at which a file in the directory that they share was last touched.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path

import psycopg
import structlog

log = structlog.get_logger()

QUIET_SECONDS = 10.0  # without a failed write; then there is room again
MARK = "disk_full"
NO_ROOM = (psycopg.errors.DiskFull, psycopg.errors.ReadOnlySqlTransaction)
"""A write without room, and one that the server refused before its disk had none (embedded/room.py)."""


class FullDisk:
    """Begins with a write that finds no room, and ends when none has for QUIET_SECONDS. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since: float | None = None
        self._last = 0.0
        self._mark: Path | None = None

    def share(self, directory: Path) -> None:
        """Tell the other processes that share a directory, and be told by them. It should not be on a disk."""
        self._mark = directory / MARK

    def tell_others(self) -> None:
        """Tell the processes that share the directory that there is no room now."""
        if self._mark is not None:
            with suppress(OSError):
                self._mark.touch()

    def met(self, error: BaseException | None) -> bool:
        """Look whether an error, or its cause, is one of the errors in NO_ROOM."""
        while error is not None and not isinstance(error, NO_ROOM):
            error = error.__cause__ or error.__context__
        if error is None:
            return False
        with self._lock:
            began = self._since is None
            self._last = time.monotonic()
            if began:
                self._since = self._last
        self.tell_others()
        if began:
            log.error("disk_full", sqlstate=error.sqlstate)
        return True

    @property
    def lasts(self) -> bool:
        """Whether writes of this process find no room; the first who asks after the end logs it."""
        if self._since is None:
            return False
        with self._lock:
            if self._since is None or time.monotonic() - self._last < QUIET_SECONDS:
                return self._since is not None
            seconds, self._since = self._last - self._since, None
        log.warning("disk_has_room", seconds=round(seconds, 1))
        return False

    @property
    def lasts_anywhere(self) -> bool:
        """Whether writes find no room in this process, or in another that shares its directory."""
        if self.lasts:
            return True
        if self._mark is not None:
            with suppress(OSError):
                return abs(time.time() - self._mark.stat().st_mtime) < QUIET_SECONDS
        return False


FULL_DISK = FullDisk()
"""The one of this process, which has one database."""
