"""One listener to streams of the log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self


class Listener:
    """Hears of some streams and projects until it is closed.

    `heard` counts the changes among them from the beginning of the listening on. `position` is that of the newest one,
    0 before the first.
    """

    __slots__ = ("_leave", "_waiting", "heard", "position", "projects", "streams")

    def __init__(self, streams: tuple[str, ...], projects: tuple[str, ...], leave: Callable[[Listener], None]) -> None:
        self.streams = streams
        self.projects = projects
        self.heard = 0
        self.position = 0
        self._leave = leave
        self._waiting: asyncio.Future[None] | None = None

    def hear(self, position: int) -> None:
        """Note a change, and wake the waiting task."""
        self.position = position
        self.heard += 1
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    async def changed(self, after: int) -> None:
        """Wait for a change beyond so many of `heard`. One task at a time waits."""
        while self.heard == after:
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting

    def close(self) -> None:
        """Hear no more. A task still waiting waits in vain."""
        self._leave(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.close()
