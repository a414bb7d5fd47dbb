"""Whose work comes next: a few places that tenants take in turn, and how a number of things is shared among them.

One tenant may have more work than all others together; whoever has little waits for one turn of each, never for the
whole of somebody's line (P25, P27).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from types import TracebackType

from service.eventstore.commands import ReadNotDone


def fair_shares(wanted: Iterable[tuple[str, int]], size: int) -> dict[str, int]:
    """Share `size` places among tenants that want so many each: nobody gets more than another who wants more still."""
    shares: dict[str, int] = {}
    ordered = sorted(wanted, key=lambda pair: pair[1])
    for number, (tenant, count) in enumerate(ordered):
        shares[tenant] = min(count, -(-size // (len(ordered) - number)))
        size -= shares[tenant]
    return shares


class Turns:
    """Places of one event loop: at most `per_tenant` of them for one tenant, of which at most `waiting` wait.

    While a place is free, everybody who waits holds as many as one may.
    """

    def __init__(self, places: int, per_tenant: int, waiting: int) -> None:
        self._free = places
        self._per_tenant = per_tenant
        self._most = waiting
        self._running: dict[str, int] = {}
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  # in the order of their next turns

    @property
    def waiting(self) -> int:
        """How many wait for a place."""
        return sum(map(len, self._waiting.values()))

    def place(self, tenant: str) -> Place:
        """Hold a place for a block, waiting for one in turn. Raises ReadNotDone when too many of the tenant wait."""
        return Place(self, tenant)

    async def enter(self, tenant: str) -> None:
        """Take a place, waiting for one in turn. Raises as `place`."""
        if self._free and self._running.get(tenant, 0) < self._per_tenant:
            self._take(tenant)
        else:
            await self._wait(tenant)

    async def _wait(self, tenant: str) -> None:
        line = self._waiting.setdefault(tenant, deque())
        if len(line) >= self._most:
            raise ReadNotDone
        turn = asyncio.get_running_loop().create_future()
        line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # The place was given in the same moment.
                self.leave(tenant)
            elif turn in line:
                line.remove(turn)
                if not line:
                    del self._waiting[tenant]
            raise

    def _take(self, tenant: str) -> None:
        self._free -= 1
        self._running[tenant] = self._running.get(tenant, 0) + 1

    def leave(self, tenant: str) -> None:
        """Give a place back, and to whoever is next: one that has had its turn goes to the end."""
        self._free += 1
        left = self._running.pop(tenant) - 1
        if left:
            self._running[tenant] = left
        for name in list(self._waiting):
            if self._running.get(name, 0) < self._per_tenant and self._hand_over(name):
                return

    def _hand_over(self, tenant: str) -> bool:
        """Give a tenant its turn; False when all who waited have just gone away."""
        line = self._waiting.pop(tenant)
        while line:
            turn = line.popleft()
            if not turn.done():
                if line:
                    self._waiting[tenant] = line
                self._take(tenant)
                turn.set_result(None)
                return True
        return False


class Place:
    """One place of one tenant; written out, for it is entered around every read."""

    __slots__ = ("_tenant", "_turns")

    def __init__(self, turns: Turns, tenant: str) -> None:
        self._turns = turns
        self._tenant = tenant

    async def __aenter__(self) -> None:
        await self._turns.enter(self._tenant)

    async def __aexit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._turns.leave(self._tenant)
