"""Deadlines of many short waits of one event loop, looked at twenty times a second.

Nearly all of these waits end long before their deadline. A timer for each, set and taken back, cost a sixth of all that
a small read costs; so one goes round while anybody waits, and nobody waits longer than a round beyond the deadline.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any

ROUND = 0.05
"""Seconds by which a wait may exceed its deadline."""


class Deadlines:
    """The waits under way in one event loop; used from that alone."""

    def __init__(self) -> None:
        self._waits: set[Deadline] = set()
        self._going_round = False

    def __len__(self) -> int:
        return len(self._waits)

    def at(self, when: float) -> Deadline:
        """Bound a block, in time of the event loop; what is under way then is cancelled, and raises TimeoutError."""
        return Deadline(self, when)

    def within(self, seconds: float) -> Deadline:
        """Bound a block to so many seconds from now, likewise."""
        return Deadline(self, asyncio.get_running_loop().time() + seconds)

    def add(self, wait: Deadline) -> None:
        """Watch over a wait that begins."""
        self._waits.add(wait)
        if not self._going_round:
            self._going_round = True
            asyncio.get_running_loop().call_later(ROUND, self._look)

    def remove(self, wait: Deadline) -> None:
        """Watch over it no more."""
        self._waits.discard(wait)

    def _look(self) -> None:
        self._going_round = bool(self._waits)
        if self._going_round:
            running = asyncio.get_running_loop()
            now = running.time()
            for wait in [wait for wait in self._waits if wait.when <= now]:
                wait.expire()
            running.call_later(ROUND, self._look)


class Deadline:
    """One wait of one task, like `asyncio.timeout_at`: whoever else cancels the task is not taken for the deadline."""

    __slots__ = ("_all", "_cancelling", "_expired", "_task", "when")

    def __init__(self, among: Deadlines, when: float) -> None:
        self._all = among
        self._expired = False
        self.when = when

    def expire(self) -> None:
        """Cancel what is under way, once."""
        self._all.remove(self)
        self._expired = True
        self._task.cancel()

    def __enter__(self) -> None:
        task: asyncio.Task[Any] | None = asyncio.current_task()
        assert task is not None, "a deadline is for a task"
        self._task = task
        self._cancelling = task.cancelling()
        self._all.add(self)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._all.remove(self)
        if self._expired and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error
