"""A thread for pieces of work that are too long for the event loop: one after the other, tenants in turn (P25).

Since one thread does it for everybody, all of them together are no more than one rival for the processor.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from service.fairness.turns import Company, Turns

T = TypeVar("T")


class Aside:
    """One thread of one process, called `name`; at most `waiting` pieces of work of one tenant wait for their turn.

    A tenant whose piece took long rests `rest` times as long while others are about (see Turns). `stack` is the size of
    the thread's stack in bytes, where the work must not have less than somebody counts on. Nobody waits for a turn for
    longer than `patience` seconds.
    """

    def __init__(
        self, waiting: int, name: str, rest: float = 0, stack: int | None = None, patience: float | None = None
    ) -> None:
        self._turns = Turns(places=1, per_tenant=1, waiting=waiting, rest=rest, patience=patience)
        self.company = Company()
        """Who is about by what `note` was told: of a body that is read before its sender is known, not its address."""
        # A pool of its own bounds the work also when callers go away: what has begun is carried out to its end.
        self._thread = ThreadPoolExecutor(1, name)
        if stack is not None:
            usual = threading.stack_size(stack)
            try:
                self._thread.submit(int)  # It has its thread from here on.
            finally:
                threading.stack_size(usual)

    def note(self, tenant: str) -> None:
        """Say that a tenant is about, also when it has no work for the thread."""
        self._turns.note(tenant)
        self.company.note(tenant)

    async def run(self, tenant: str, work: Callable[[], T]) -> T:
        """Carry out a pure piece of work in the thread. Raises what it raises, and ReadNotDone when too many wait."""
        async with self._turns.place(tenant):
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
