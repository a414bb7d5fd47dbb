"""Work on what is large happens away from the event loop: in one thread, tenants in turn (P25).

To take half a megabyte apart, to check and to hash it takes up to a tenth of a second, in which a process would do
nothing else. In a thread it takes as long, but the loop has its turn every half a millisecond; and since one thread
does it for everybody, all of them together are no more than one rival for the interpreter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from service.eventstore.turns import Turns

T = TypeVar("T")

LARGE = 32 * 1024
"""Bytes of a body from which on it is worked on apart; to change threads costs as much as to parse a tenth of that."""


class Apart:
    """The thread of one process; at most `waiting` pieces of work of one tenant wait for their turn."""

    def __init__(self, waiting: int) -> None:
        self._turns = Turns(places=1, per_tenant=1, waiting=waiting)
        # A pool of its own bounds the work also when callers go away: what has begun is carried out to its end.
        self._thread = ThreadPoolExecutor(1, "service-apart")

    async def run(self, tenant: str, work: Callable[[], T]) -> T:
        """Carry out a pure piece of work in the thread. Raises what it raises, and ReadNotDone when too many wait."""
        async with self._turns.place(tenant):
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def run_if_large(self, tenant: str, size: int, work: Callable[[], T]) -> T:
        """Carry out work on a body of `size` bytes: here and now unless it is large. Raises as `run`."""
        return await self.run(tenant, work) if size > LARGE else work()
