"""Turns of the requests to providers: some at once in a process, few of them of one account (P25).

Accounts with a slow provider share half of the places, one each, until an exchange of theirs is quick again. So silent
hosts never take all places, however many accounts have one.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from service.analytics.refusals import QueriesBusy
from service.fairness.turns import ReadNotDone, Turns

PLACES = 16
"""Requests of callers with an exchange under way."""
PER_ACCOUNT = 2
MOST_WAITING = 16
"""Requests of one account that wait for their turn."""
WAIT_SECONDS = 5.0
SLOW_SECONDS = 2.0
"""Least seconds of an exchange with a slow provider."""
SLOW_PLACES = 8
MOST_SLOW = 4096
"""Accounts remembered with a slow provider. The one with the oldest exchange is forgotten first."""


class Exchanges:
    """The turns of one process."""

    def __init__(self) -> None:
        self._turns = Turns(places=PLACES, per_tenant=PER_ACCOUNT, waiting=MOST_WAITING)
        self._slow_turns = Turns(places=SLOW_PLACES, per_tenant=1, waiting=MOST_WAITING)
        self._slow: OrderedDict[str, None] = OrderedDict()

    @asynccontextmanager
    async def turn(self, account: str) -> AsyncIterator[None]:
        """Hold a place for a block. Raises QueriesBusy when none came in time."""
        loop = asyncio.get_running_loop()
        async with AsyncExitStack() as places:
            try:
                async with asyncio.timeout(WAIT_SECONDS):
                    if account in self._slow:
                        await places.enter_async_context(self._slow_turns.place(account))
                    await places.enter_async_context(self._turns.place(account))
            except (TimeoutError, ReadNotDone):
                raise QueriesBusy from None
            began = loop.time()
            try:
                yield
            finally:
                self._learn(account, loop.time() - began)

    def _learn(self, account: str, seconds: float) -> None:
        self._slow.pop(account, None)
        if seconds >= SLOW_SECONDS:
            self._slow[account] = None
            if len(self._slow) > MOST_SLOW:
                self._slow.popitem(last=False)
