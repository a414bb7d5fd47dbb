"""Large bodies take turns: however many one account sends, the event loop goes on for all others (P25).

To take a body apart costs time in which nothing else happens. So the loop parses a bounded number of bytes before it
looks at its other connections again, and what is left waits, accounts in turn; small bodies never wait. Who sends many
records in a body leaves the loop to others for some time after each part of it, while there are others.
"""

from __future__ import annotations

import asyncio
import time

from service.fairness.bounds import FairBounds
from service.fairness.semaphore import FairSemaphore
from service.fairness.turns import CommandNotDone, Company, Rests

SMALL = 2048
"""Bytes of a body that never waits."""
FOREIGN = 4
"""Times that a byte of an SDK's record costs one of ours: it is read, turned into one of ours, and that written."""
AT_ONCE = 128 * 1024
"""Bytes that are parsed before the loop turns to its other connections; one body may exceed it."""
REST = 4.0
"""How many times as long as it took to read a part of a body its sender has no other part read, while others are about:
a fifth of the loop is left to it."""
UNTIRED = 0.02
"""Seconds of rest that nobody takes: a usual batch is read at once."""
PATIENCE = 5.0
"""Seconds that a part of a body waits for the rest of its sender, who then has too many bodies on their way."""


class _Held:
    """Who has had the loop for long while others were about, and until when they leave it to those."""

    def __init__(self) -> None:
        self._rests = Rests(spared=UNTIRED)
        self._holder: tuple[str, float, Company] | None = None  # who has the loop, since when, and in which company

    def begin(self, tenant: str, company: Company) -> None:
        """Say that a tenant has the loop from now on."""
        self._holder = tenant, time.monotonic(), company

    def end(self) -> None:
        """Say that whoever has the loop, if anybody, has it no longer."""
        if self._holder is None:
            return
        (tenant, since, company), self._holder = self._holder, None
        if not company.several:
            return
        self._rests.add(tenant, REST * (time.monotonic() - since))

    def left(self, tenant: str) -> float:
        """For how many seconds a tenant has to rest still; none if it is not positive."""
        return self._rests.left(tenant) - UNTIRED


class Shares:
    """Shares what the loop parses before it looks up. One per process, used from its event loop.

    What was taken is free again at the next look. Then those who wait are let in, in turn.
    """

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._rests = _Held()
        self._semaphore = FairSemaphore(FairBounds(at_once))
        self._ticking = False

    def rests(self, tenant: str) -> bool:
        """Whether the next part of a body of a tenant has to wait for the rest after another."""
        self._rests.end()
        return self._rests.left(tenant) > 0

    async def take_part(self, tenant: str, size: int, company: Company) -> None:
        """Wait as `take` does, and for the end of the tenant's rest; while several are about, it rests after this too.

        Raises CommandNotDone when it would take too long.
        """
        patient = time.monotonic() + PATIENCE
        self._rests.end()
        while (left := self._rests.left(tenant)) > 0:
            if time.monotonic() > patient:
                raise CommandNotDone
            await asyncio.sleep(left)
        await self.take(tenant, size)
        self._rests.begin(tenant, company)
        self._tick_later()

    async def take(self, tenant: str, size: int) -> None:
        """Wait until a body of `size` bytes may be parsed, which the caller then does at once."""
        self._rests.end()
        if size <= SMALL:
            return
        await self._semaphore.enter(tenant, size)
        self._tick_later()

    def _tick_later(self) -> None:
        if not self._ticking:
            self._ticking = True
            asyncio.get_running_loop().call_soon(self._tick)

    def _tick(self) -> None:
        """Begin a new share. It runs once for each time that the loop looks at its connections."""
        self._rests.end()
        self._ticking = False
        self._semaphore.renew()
        if self._semaphore.held:
            self._tick_later()
