"""Shared reads: one for all callers of a moment, begun after each of them had asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from service.fairness.not_done import ReadNotDone

T = TypeVar("T")


class Looks(Generic[T]):
    """Shares the reads of a process by name. No caller is told a state from before the call.

    During a read, callers wait for the next one. So a name has two reads at most, however many ask for it.
    """

    def __init__(self, read: Callable[[str], Awaitable[T]]) -> None:
        self._read = read
        self._begun: dict[str, asyncio.Task[T]] = {}
        self._waiting: dict[str, asyncio.Task[T]] = {}

    async def look(self, name: str) -> T:
        """Read, or share the next read. Raises as the read does.

        A read takes the turn of its first caller. Without that turn, the others read for themselves.
        """
        shared = self._waiting.get(name)
        if shared is not None:
            try:
                return await asyncio.shield(shared)
            except ReadNotDone:
                return await self._read(name)
        task = asyncio.create_task(self._look_after(self._begun.get(name), name))
        self._waiting[name] = task
        task.add_done_callback(_hear)
        return await asyncio.shield(task)

    async def _look_after(self, former: asyncio.Task[T] | None, name: str) -> T:
        if former is not None:
            await asyncio.wait([former])
        task = self._begun[name] = self._waiting.pop(name)
        try:
            return await self._read(name)
        finally:
            if self._begun.get(name) is task:
                del self._begun[name]


def _hear(task: asyncio.Task[T]) -> None:
    """Take note of a failure, also where every caller has gone meanwhile."""
    if not task.cancelled():
        task.exception()
