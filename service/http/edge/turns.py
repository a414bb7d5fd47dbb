"""Large bodies take turns: however many one account sends, the event loop goes on for all others (P25).

To take a body apart costs time in which nothing else happens. So the loop parses a bounded number of bytes before it
looks at its other connections again, and what is left waits, accounts in turn; small bodies never wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from service.eventstore.inturn import Lines

SMALL = 2048
"""Bytes of a body that never waits."""
FOREIGN = 4
"""Times that a byte of an SDK's record costs one of ours: it is read, turned into one of ours, and that written."""
AT_ONCE = 128 * 1024
"""Bytes that are parsed before the loop turns to its other connections; one body may exceed it."""

Waiter = asyncio.Future[None]


class _Line:
    """Those who wait, the tenants in turn.

    `pass_on` is called for one who was called but has gone.
    """

    def __init__(self, pass_on: Callable[[], object]) -> None:
        self._pass_on = pass_on
        self._waiters: Lines[tuple[Waiter, int]] = Lines()

    def __bool__(self) -> bool:
        return bool(self._waiters)

    async def wait(self, tenant: str, cost: int) -> None:
        """Wait to be called."""
        waiter: Waiter = asyncio.get_running_loop().create_future()
        self._waiters.add(tenant, (waiter, cost))
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():
                self._pass_on()
            raise

    def call(self) -> int | None:
        """Call who is next; returns the cost, None when nobody waits."""
        while self._waiters:
            waiter, cost = self._waiters.take()
            if not waiter.done():  # Else it was cancelled with its connection.
                waiter.set_result(None)
                return cost
        return None


class Shares:
    """Shares what the loop parses before it looks up. One per process, used from its event loop."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._at_once = self._left = at_once
        self._line = _Line(self._tick_later)
        self._ticking = False

    async def take(self, tenant: str, size: int) -> None:
        """Wait until a body of `size` bytes may be parsed, which the caller then does at once."""
        if size <= SMALL:
            return
        if self._line or self._left <= 0:
            await self._line.wait(tenant, size)
            return
        self._left -= size
        self._tick_later()

    def _tick_later(self) -> None:
        if not self._ticking:
            self._ticking = True
            asyncio.get_running_loop().call_soon(self._tick)

    def _tick(self) -> None:
        """Begin a new share. It runs once for each time that the loop looks at its connections."""
        self._ticking = False
        self._left = self._at_once
        while self._left > 0 and (cost := self._line.call()) is not None:
            self._left -= cost
        if self._left < self._at_once:
            self._tick_later()
