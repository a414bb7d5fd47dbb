"""How a commit wakes the worker, another process of the same service: a shared flag, and a pipe.

The sequencer raises the flag, looks for events once more, and only then rests. So a commit either was there for that
look or finds the flag and writes into the pipe. Whoever commits lowers the flag: of the commits that meet one rest, one
pays for a write of one byte, and a busy log pays for nothing. A commit of another service on the same database, or
of a command, rings nobody here. The sequencer finds it at its next look.

The pipe is made before the processes part, because a NOTIFY would make all commits wait for each other.
"""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Callable
from contextlib import suppress

_DOWN, _UP = 0, 1
_MOST = 4096  # bytes of one read: any number of rings is one


class Bell:
    """Silent until `hang`. Its process and those forked from it afterwards share it."""

    def __init__(self) -> None:
        self._flag: mmap.mmap | None = None
        self._pipe = (-1, -1)

    def hang(self) -> None:
        """Make the flag and the pipe, once, before the processes part."""
        if self._flag is None:
            self._pipe = os.pipe()
            os.set_blocking(self._pipe[1], False)
            self._flag = mmap.mmap(-1, 1)

    def ring(self) -> None:
        """Wake whoever rests, after a commit. Any thread may."""
        flag = self._flag
        if flag is not None and flag[0] == _UP:
            flag[0] = _DOWN
            with suppress(BlockingIOError):  # full of rings that nobody has heard yet
                os.write(self._pipe[1], b"\0")

    def expect(self) -> None:
        """Let the next commit ring."""
        if self._flag is not None:
            self._flag[0] = _UP

    def cover(self) -> None:
        """Let no commit ring."""
        if self._flag is not None:
            self._flag[0] = _DOWN

    def listen(self, heard: Callable[[], object]) -> None:
        """Call a function at each ring from now on, in a thread of its own that lasts as long as the process."""
        if self._flag is not None:
            threading.Thread(target=self._listen, args=(heard,), name="service-bell", daemon=True).start()

    def _listen(self, heard: Callable[[], object]) -> None:
        while os.read(self._pipe[0], _MOST):
            heard()


COMMITTED = Bell()
"""Rung after a commit with events, for the sequencer. A process and its copies have one database."""
RESENT = Bell()
"""Rung after deliveries to webhooks were queued again, for those who deliver."""
