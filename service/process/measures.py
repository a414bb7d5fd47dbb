"""Where the processes of one `service serve` count together, and what the worker counts (see edge/measure/metrics.py).

The directory is in memory where there is such a place: the files are mapped, and a write to a mapped file that the disk
has no room for ends the process. One that was killed leaves its directory behind; the next start removes it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"  # the library reads it when it is loaded
PREFIX = "service-metrics-"
_MEMORY = Path("/dev/shm")  # noqa: S108 - the directory made in it belongs to this user alone
_LOCK = "lock"
_YOUNG_SECONDS = 60  # a directory that was just made may not be locked yet


@contextmanager
def counting_together() -> Iterator[dict[str, str]]:
    """Make the directory for the block; yields the variable that names it to the processes."""
    parent = _MEMORY if os.access(_MEMORY, os.W_OK) else Path(tempfile.gettempdir())
    _remove_abandoned(parent)
    directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    try:
        with (directory / _LOCK).open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # the kernel lets go of it however this process ends
            yield {DIRECTORY: str(directory)}
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _remove_abandoned(parent: Path) -> None:
    """Remove the directories of this user that no process holds any more."""
    for directory in parent.glob(f"{PREFIX}*"):
        with suppress(OSError), (directory / _LOCK).open("rb+") as lock:
            made = directory.stat()
            if made.st_uid == os.geteuid() and time.time() - made.st_mtime > _YOUNG_SECONDS:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(directory, ignore_errors=True)
