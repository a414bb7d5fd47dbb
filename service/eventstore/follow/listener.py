"""One listener to streams of the log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self


class Listener:
    """Hears of some streams and projects until it is closed.

    `heard` counts the changes among them from the beginning of the listening on. `position` is that of the newest one,
    0 before the first. A listener keeps as many positions as it `keeps` until they are taken. `tell` is called with
    each change.
    """

    __slots__ = (
        "_keeps",
        "_kept",
        "_leave",
        "_missed",
        "_tell",
        "_waiting",
        "heard",
        "position",
        "projects",
        "streams",
    )

    def __init__(
        self,
        streams: tuple[str, ...],
        projects: tuple[str, ...],
        leave: Callable[[Listener], None],
        *,
        keeps: int = 0,
        tell: Callable[[], None] | None = None,
    ) -> None:
        self.streams = streams
        self.projects = projects
        self.heard = 0
        self.position = 0
        self._leave = leave
        self._keeps = keeps
        self._kept: list[int] = []
        self._missed = False
        self._tell = tell
        self._waiting: asyncio.Future[None] | None = None

    def hear(self, position: int) -> None:
        """Note a change, and wake the waiting task."""
        self.position = position
        self.heard += 1
        if self._keeps:
            if len(self._kept) < self._keeps:
                self._kept.append(position)
            else:
                self._missed = True
        if self._tell is not None:
            self._tell()
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    def take(self) -> list[int] | None:
        """Take the kept positions. None when there were more than could be kept."""
        kept, self._kept = self._kept, []
        missed, self._missed = self._missed, False
        return None if missed else kept

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
