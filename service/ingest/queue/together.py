"""The records of one request wait together: one look at what has become of them, and not a future for each.

Belongs to one event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from service.eventstore.declare.commands import Outcome
from service.fairness.not_done import CommandNotDone
from service.ingest.queue.items import Item

Result = Outcome | Exception


class Together:
    """What has become of the records of a request, by their places in it."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._results: list[Result | None] = [None] * len(items)
        self._news = asyncio.Event()
        self.waiting = 0  # that were taken in and have no result yet

    def place(self, index: int) -> PartWaiter:
        """The place of a record that is taken in."""
        self.waiting += 1
        return PartWaiter(self, index)

    def has(self, index: int) -> bool:
        """Whether a record has its result."""
        return self._results[index] is not None

    def tell(self, index: int, result: Result) -> None:
        """Take the result of a record."""
        self._results[index] = result

    def told(self) -> None:
        """One of those that wait has its result."""
        self.waiting -= 1
        self._news.set()

    async def news(self) -> None:
        """Wait until another one has its result."""
        self._news.clear()
        await self._news.wait()

    def results(self) -> list[Result]:
        """The result of each; a record that was never taken in was certainly not stored."""
        return [CommandNotDone() if result is None else result for result in self._results]


class PartWaiter:
    """Stands for one record of several where the intake tells its caller: it is used like a future."""

    __slots__ = ("_index", "_together")

    def __init__(self, together: Together, index: int) -> None:
        self._together = together
        self._index = index

    def done(self) -> bool:
        """Whether it has its result."""
        return self._together.has(self._index)

    def set_result(self, outcome: Outcome) -> None:
        """Take what became of it."""
        self._together.tell(self._index, outcome)
        self._together.told()

    def set_exception(self, error: Exception) -> None:
        """Take why it was not stored."""
        self._together.tell(self._index, error)
        self._together.told()
