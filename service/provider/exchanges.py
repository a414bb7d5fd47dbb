"""Turns of the requests to providers: some at once in a process, few of them of one account (P25)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from service.analytics.refusals import QueriesBusy
from service.fairness.not_done import ReadNotDone
from service.fairness.turns import Turns

PLACES = 16
"""Requests of callers with an exchange under way."""
PER_ACCOUNT = 2
MOST_WAITING = 16
"""Requests of one account that wait for their turn."""
WAIT_SECONDS = 5.0


class Exchanges:
    """The turns of one process."""

    def __init__(self) -> None:
        self._turns = Turns(places=PLACES, per_tenant=PER_ACCOUNT, waiting=MOST_WAITING)

    @asynccontextmanager
    async def turn(self, account: str) -> AsyncIterator[None]:
        """Hold a place for a block. Raises QueriesBusy when none came in time."""
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await self._turns.enter(account)
        except (TimeoutError, ReadNotDone):
            raise QueriesBusy from None
        try:
            yield
        finally:
            self._turns.leave(account)
