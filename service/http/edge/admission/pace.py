"""The pace of refusals: one caller's leave one after the other, however many connections ask (P25).

A refusal costs little, yet a client that asks anew at once, on hundreds of connections, keeps the loop busy with
nothing else. Held for a moment, it takes its sender's time and not that of the process.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict

RATE = 50  # refusals of one caller in a second
BURST = 100  # that leave at once
LONGEST = 5.0  # seconds for which one is held
MOST_CALLERS = 16_384  # the one not refused for longest is forgotten first


class RefusalPace:
    """Holds the refusals of one process."""

    def __init__(self) -> None:
        self._paid: OrderedDict[str, float] = OrderedDict()
        self.held: set[asyncio.Future[None]] = set()
        self._over = False

    def __len__(self) -> int:
        return len(self._paid)

    def delay(self, caller: str, now: float) -> float:
        """Count a refusal in, at a moment of a monotonic clock; returns for how many seconds it is held."""
        paid = max(self._paid.pop(caller, -math.inf), now - BURST / RATE) + 1 / RATE
        self._paid[caller] = paid = min(paid, now + LONGEST)
        if len(self._paid) > MOST_CALLERS:
            self._paid.popitem(last=False)
        return max(0.0, paid - now)

    async def hold(self, caller: str) -> None:
        """Return when a refusal may leave, or when the process ends."""
        loop = asyncio.get_running_loop()
        delay = self.delay(caller, loop.time())
        if not delay or self._over:
            return
        released: asyncio.Future[None] = loop.create_future()
        self.held.add(released)
        timer = loop.call_later(delay, _release, released)
        try:
            await released
        finally:
            timer.cancel()
            self.held.discard(released)

    def end(self) -> None:
        """Release all that are held, because the process ends. From now on none is."""
        self._over = True
        for released in self.held:
            _release(released)


def _release(released: asyncio.Future[None]) -> None:
    if not released.done():
        released.set_result(None)
