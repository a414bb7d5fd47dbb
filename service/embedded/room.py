"""Room on the disk of the embedded server: a ballast file goes first, then writes stop before the log has no room.

A server without room for its log ends, its recovery finds no room either, and reads are gone with it. So the service
gives up a file that it holds for this, and below STOP_BYTES it lets the server take reads alone. Both come back by
themselves. Nothing of this runs beside a database of your own.
"""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import structlog

from service.embedded.layout import Layout

log = structlog.get_logger()

MB = 1_000_000
STOP_BYTES = 64 * MB
"""Free bytes below which writes stop. The log grows by files of 17 MB, and a vacuum or a checkpoint writes it too."""
RESUME_BYTES = 96 * MB
"""Free bytes from which on they go on."""
ROOMY_BYTES = 256 * MB
"""Free bytes that have to be left beside a new ballast file."""
LOOK_SECONDS = 1.0
LOOK_WHILE_LOW_SECONDS = 0.1
CONNECT_SECONDS = 3
READ_ONLY = "default_transaction_read_only"
READS_ALONE = {READ_ONLY: "on", "autovacuum": "off"}
"""Settings of the server while writes are stopped. The first is set first and reset last, and stands for both."""
SET_BY_SQL = "postgresql.auto.conf"


def ballast_of(layout: Layout) -> int:
    """Bytes of the ballast file. 0 without one."""
    with suppress(OSError):
        return layout.ballast.stat().st_size
    return 0


class DiskRoom:
    """Watches the disk of one data directory, with a ballast file of so many bytes.

    `look` is for one thread at a time. It needs no state of an earlier process: the file and the server's settings are
    the state.
    """

    def __init__(self, layout: Layout, ballast_bytes: int) -> None:
        self._layout = layout
        self._ballast_bytes = ballast_bytes
        self._stopped = False
        self._applied: bool | None = None  # read from the server's files at the first look
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, found_none: Callable[[], None]) -> None:
        """Look from now on, in a thread. `found_none` is called at each look while writes are stopped."""
        self._thread = threading.Thread(target=self._watch, args=(found_none,), name="service-room", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread. What the server was told stays as it is."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join(CONNECT_SECONDS)

    def free_up(self) -> None:
        """Give up the ballast if there is no room: what a server needs that is to start. Also once when it does not."""
        if self._free() < STOP_BYTES and self._layout.ballast.exists():
            given_up = ballast_of(self._layout)
            self._layout.ballast.unlink(missing_ok=True)
            log.warning("ballast_given_up", free_mb=self._free() // MB, ballast_mb=given_up // MB)

    def look(self) -> None:
        """Look at the disk once, and let the server take writes or reads alone."""
        self.free_up()
        free = self._free()
        if not self._stopped and free < STOP_BYTES:
            self._stopped = True
            log.error("writes_stopped", free_mb=free // MB, stop_mb=STOP_BYTES // MB)
        elif self._stopped and free >= RESUME_BYTES:
            self._stopped = False
            log.warning("writes_resumed", free_mb=free // MB)
        if self._applied is None:
            self._applied = READ_ONLY in (self._layout.cluster / SET_BY_SQL).read_text(encoding="utf-8")
        if self._applied is not self._stopped:
            self._tell_server()
        self._refill(free)

    def _watch(self, found_none: Callable[[], None]) -> None:
        while not self._ending.is_set():
            try:
                self.look()
                if self._stopped:
                    found_none()
            except OSError as error:
                log.warning("room_not_seen", error=str(error))
            low = self._stopped or self._free() < ROOMY_BYTES
            self._ending.wait(LOOK_WHILE_LOW_SECONDS if low else LOOK_SECONDS)

    def _free(self) -> int:
        """Free bytes for those who are not root."""
        found = os.statvfs(self._layout.data_dir)
        return found.f_bavail * found.f_frsize

    def _refill(self, free: int) -> None:
        """Make the ballast again once there is room for it and for more."""
        ballast = self._layout.ballast
        if not self._ballast_bytes:
            ballast.unlink(missing_ok=True)
        elif ballast_of(self._layout) < self._ballast_bytes and free >= self._ballast_bytes + ROOMY_BYTES:
            _allocate(ballast, self._ballast_bytes)

    def _tell_server(self) -> None:
        """Bring the server's settings to the decision, for all sessions, at this look or the next one."""
        import psycopg  # noqa: PLC0415 - a start loads it after more urgent things

        options = "-c default_transaction_read_only=off -c statement_timeout=10s"
        with (
            suppress(psycopg.Error),
            psycopg.connect(
                self._layout.admin_url, autocommit=True, connect_timeout=CONNECT_SECONDS, options=options
            ) as connection,
        ):
            names = list(READS_ALONE)
            for name in names if self._stopped else reversed(names):
                change = f"set {name} = {READS_ALONE[name]}" if self._stopped else f"reset {name}"
                connection.execute(f"alter system {change}")
            connection.execute("select pg_reload_conf()")
            self._applied = self._stopped
            if self._stopped:
                connection.execute("checkpoint")  # It removes files of the log that nobody needs any more.


def _allocate(path: Path, size: int) -> None:
    """Make a file whose blocks are there, whole or not at all."""
    draft = path.with_name(f"{path.name}.new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, size)
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        log.warning("ballast_not_made", error=str(error))
    finally:
        os.close(descriptor)
