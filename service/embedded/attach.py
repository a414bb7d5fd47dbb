"""A server that runs as long as someone needs it.

A process that needs it holds the `users` lock, shared. It finds the server running or starts it; that also adopts one
that a killed process left behind. The last process to leave stops it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from service.embedded.cluster import Busy, Cluster, FileLock, held
from service.embedded.layout import EmbeddedError, Layout

LOOK_SECONDS = 0.2  # somebody may be looking who holds it (supervisor_of)
CHANGE_WAIT_SECONDS = 150.0  # another process may be making the cluster, or recovering it


class Attachment:
    """The use of the running server, until `release`."""

    def __init__(self, layout: Layout, programs: Path | None = None) -> None:
        layout.make()
        self.layout = layout
        self.cluster = Cluster(layout, programs)
        self._users = FileLock(layout.locks / "users")
        try:
            self.ensure()
        except BaseException:
            self.release()
            raise

    def ensure(self) -> None:
        """Start the server when it does not run (at first, or after it died). Raises EmbeddedError."""
        try:
            with held(self.layout.locks / "change", wait_seconds=CHANGE_WAIT_SECONDS):
                self._users.take(shared=True, wait_seconds=1)
                self.cluster.ensure()
        except Busy as error:
            raise EmbeddedError("Another process has been starting or stopping PostgreSQL for too long.") from error

    def release(self, *, patience_seconds: float = 10.0) -> None:
        """Stop the server unless another process uses it."""
        try:
            with held(self.layout.locks / "change", wait_seconds=patience_seconds):
                self._users.take()
                self.cluster.stop(patience_seconds)
        except Busy:
            self.cluster.leave()
        finally:
            self._users.close()


@contextmanager
def attached(layout: Layout, programs: Path | None = None) -> Iterator[Attachment]:
    """Keep the server running for a block."""
    attachment = Attachment(layout, programs)
    try:
        yield attachment
    finally:
        attachment.release()


@contextmanager
def alone(layout: Layout, programs: Path | None = None) -> Iterator[None]:
    """Run the server for this process alone. Raises EmbeddedError while another one uses it."""
    layout.make()
    cluster = Cluster(layout, programs)
    users = FileLock(layout.locks / "users")
    try:
        try:
            users.take(wait_seconds=LOOK_SECONDS)
        except Busy as error:
            raise EmbeddedError(f"Another process uses the database in {layout.data_dir}. Stop it first.") from error
        with held(layout.locks / "change", wait_seconds=CHANGE_WAIT_SECONDS):
            cluster.ensure()
        try:
            yield
        finally:
            with held(layout.locks / "change", wait_seconds=CHANGE_WAIT_SECONDS):
                cluster.stop()
    finally:
        users.close()


class RunningService(NamedTuple):
    """The `service serve` of a data directory: its process number, and where it serves."""

    pid: str
    base_url: str


@contextmanager
def sole_supervisor(layout: Layout, base_url: str) -> Iterator[None]:
    """Hold the supervisor lock of a data directory. Raises EmbeddedError when another process holds it."""
    layout.make()
    lock = FileLock(layout.locks / "supervisor")
    try:
        lock.take(wait_seconds=LOOK_SECONDS)
    except Busy as error:
        holder = _noted(lock)
        lock.close()
        raise EmbeddedError(
            f"Another service runs on {layout.data_dir}, as process {holder.pid}. Stop it or set SERVICE_DATA_DIR."
        ) from error
    try:
        lock.write(f"{os.getpid()} {base_url}")
        yield
    finally:
        lock.close()


def supervisor_of(layout: Layout) -> RunningService | None:
    """The `service serve` that runs on a data directory, None when none does; makes nothing."""
    path = layout.locks / "supervisor"
    if not os.access(path, os.R_OK | os.W_OK):
        return None
    lock = FileLock(path)
    try:
        lock.take()
    except Busy:
        return _noted(lock)
    finally:
        lock.close()
    return None


def _noted(lock: FileLock) -> RunningService:
    """What the holder of the lock has noted. A release before this one noted its process number alone."""
    pid, _, base_url = lock.read().partition(" ")
    return RunningService(pid or "unknown", base_url)
