"""Work on what is large happens away from the event loop: in one thread, tenants in turn (P25).

To take half a megabyte apart, to check and to hash it takes up to a tenth of a second, in which a process would do
nothing else. In a thread it takes as long, but the loop has its turn every half a millisecond.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, TypeVar

from service.fairness.aside import Aside

T = TypeVar("T")

LARGE = 32 * 1024
"""Bytes of a body from which on it is worked on apart; to change threads costs as much as to parse a tenth of that."""

REST = 4.0
"""How many times as long as its body took a tenant has no other worked on, while others are about: a fifth of the time
is left to it, for whoever waits for the interpreter waits for each step of the others' work."""


class Apart(Aside):
    """The thread of one process that works on bodies."""

    def __init__(self, waiting: int) -> None:
        super().__init__(waiting, "service-apart", REST)
        self._once: dict[Hashable, asyncio.Task[Any]] = {}
        self._called: set[Hashable] = set()

    async def run_if_large(self, tenant: str, size: int, work: Callable[[], T]) -> T:
        """Carry out work on a body of `size` bytes: here and now unless it is large. Raises as `run`."""
        return await self.run(tenant, work) if size > LARGE else work()

    async def run_once(self, tenant: str, name: Hashable, work: Callable[[], T]) -> T:
        """Carry out the work of a name once for all who ask meanwhile, in the turn of the first. Raises as `run`.

        It goes on when a caller goes away. Its result is for the callers to keep.
        """
        task = self._once.get(name)
        if task is None:
            task = self._once[name] = asyncio.create_task(self.run(tenant, work))
            task.add_done_callback(partial(self._end_once, name))
        found: T = await asyncio.shield(task)
        return found

    async def call_once(self, tenant: str, function: Callable[..., T], *args: Hashable) -> T:
        """The result of a function that keeps its results. Its first call with these arguments is made as `run_once`.

        Whoever calls it gives it few arguments. Raises what it raises.
        """
        name = (function, args)
        if name not in self._called:
            await self.run_once(tenant, name, partial(function, *args))
            self._called.add(name)
        return function(*args)

    def _end_once(self, name: Hashable, task: asyncio.Task[Any]) -> None:
        del self._once[name]
        if not task.cancelled():
            task.exception()  # Its callers may all have gone away.
