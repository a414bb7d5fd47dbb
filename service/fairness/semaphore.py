"""The semaphore: tenants hold places or bytes of a process, each within its bounds (P25, P27, G-204).

Without room a caller is refused at once (`take`), or waits for its turn (`enter`). Holders and waiters are bounded. One
that goes away leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from math import inf
from types import TracebackType
from typing import Self

from service.fairness.bounds import SHARE, FairBounds, Full
from service.fairness.queue import FairQueue
from service.fairness.turns import Company, ReadNotDone, Rests, place_of

SHORT = 0.005
"""Seconds for which a place may be held by anybody as often as they like."""

Refuse = Callable[[Full, str], Exception]
"""The refusal of a tenant or member, by the bound without room."""


def _not_done(_: Full, __: str) -> Exception:
    return ReadNotDone()


class _Waiter:
    """A caller in the line: for how much, and on whose turn."""

    __slots__ = ("first", "tenant", "turn", "weight")

    def __init__(self, tenant: str, weight: int, *, first: bool) -> None:
        self.tenant = tenant
        self.weight = weight
        self.first = first
        self.turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class FairSemaphore:
    """Places of one event loop within `bounds`. Of `waiting` callers of a tenant or member a process has its share.

    Whoever waits gets in while anything is free, in turn, so one may exceed the bound.
    Those who are `first` go before the others of their tenant, where it is `ranked`.

    While a place is free, everybody who waits holds as many as one may, or rests: a tenant that has held a place for
    longer than SHORT seconds while others were about has none for `rest` times as long. So it cannot take the
    processors from those who need places for moments, nor from what needs none; alone it never rests. Nobody waits for
    longer than `patience` seconds.
    """

    def __init__(
        self,
        bounds: FairBounds,
        *,
        waiting: float = inf,
        rest: float = 0,
        patience: float | None = None,
        ranked: bool = False,
        refuse: Refuse = _not_done,
    ) -> None:
        self.bounds = bounds
        waiting = waiting if waiting == inf else SHARE.of(int(waiting))
        self._rest = rest
        self._patience = patience
        self._refuse = refuse
        self._line: FairQueue[_Waiter] = FairQueue(
            lambda waiter: waiter.tenant,
            places=FairBounds(per_tenant=waiting, per_place=inf, per_member=waiting),
            late=lambda waiter, _: waiter.turn.done(),
            last=(lambda waiter: not waiter.first) if ranked else None,
        )
        self._rests = Rests()
        self._company = Company()

    @property
    def waiting(self) -> int:
        """How many wait for a place."""
        return len(self._line)

    @property
    def held(self) -> int:
        """The sum of all holdings."""
        return self.bounds.held

    def __len__(self) -> int:
        return len(self.bounds)

    # -- refused at once ---------------------------------------------------------------------------------------

    def check(self, tenant: str, weight: int = 1) -> None:
        """Raise as `refuse` makes it when there is no room."""
        if (full := self.bounds.full(tenant, weight)) is not None:
            raise self._refuse(full, tenant)

    def take(self, tenant: str, weight: int = 1) -> None:
        """Take places without waiting. Raises as `check`. They are given back by `leave`."""
        self.check(tenant, weight)
        self.bounds.add(tenant, weight)

    def of(self, tenant: str) -> Holding:
        """The holding of one piece of work, still empty."""
        return Holding(self, tenant)

    # -- in turn -----------------------------------------------------------------------------------------------

    def place(self, tenant: str, *, first: bool = False) -> Place:
        """Hold a place for a block, waiting for one in turn. Raises as `enter`."""
        return Place(self, tenant, first=first)

    async def enter(self, tenant: str, weight: int = 1, *, first: bool = False) -> None:
        """Take a place, waiting for one in turn.

        Raises as `refuse` makes it when too many of the tenant wait, or when no place came in time.
        """
        place = place_of(tenant)
        if self._may_begin(place):
            self.bounds.add(tenant, weight)
            return
        try:
            async with asyncio.timeout(self._patience):
                await self._wait(place, _Waiter(tenant, weight, first=first))
        except TimeoutError:
            raise self._refuse(Full.TENANT, tenant) from None

    def _may_begin(self, place: str) -> bool:
        return self.bounds.free > 0 and self._may(place)

    def _may(self, place: str) -> bool:
        return self.bounds.may(place) and (not self._rest or self._rests.left(place) <= 0)

    async def _wait(self, place: str, waiter: _Waiter) -> None:
        if not self._line.admit(waiter):
            raise self._refuse(Full.TENANT, waiter.tenant)
        left = self._rests.left(place)
        if left > 0 or self.bounds.free > 0:  # Nobody may give a place back just then, and its rest be over by now.
            asyncio.get_running_loop().call_later(max(0, left), self._wake, place)
        try:
            await waiter.turn
        except asyncio.CancelledError:
            if not waiter.turn.cancelled():  # The place was given in the same moment.
                self.leave(waiter.tenant, weight=waiter.weight)
            else:
                self._line.remove(waiter)
            raise

    def leave(self, tenant: str, held: float = 0.0, *, weight: int = 1) -> None:
        """Give back a place after so many seconds, and to whoever is next. The last one served goes last."""
        self.bounds.add(tenant, -weight)
        if self._rest:
            self._let_rest(place_of(tenant), held)
        self._serve()

    def _serve(self) -> None:
        while self.bounds.free > 0 and self._hand_over(self._may):
            pass

    def _hand_over(self, may: Callable[[str], bool]) -> bool:
        """Give the next one in turn a place. False when nobody waiting may have one."""
        waiter = self._line.pop(may)
        if waiter is None:
            return False
        self.bounds.add(waiter.tenant, waiter.weight)
        waiter.turn.set_result(None)
        return True

    def renew(self) -> None:
        """Give back all places of everybody, and let the waiting ones in."""
        self.bounds.clear()
        self._serve()

    # -- rests -------------------------------------------------------------------------------------------------

    def note(self, tenant: str) -> None:
        """Say that a tenant is about, also when it needs no place."""
        self._company.note(tenant)

    def _let_rest(self, place: str, held: float) -> None:
        self.note(place)
        if held < SHORT or not self._company.several:
            return
        self._rests.add(place, held * self._rest)
        if self._line.waits(place):
            self._wake(place)

    def _wake(self, place: str) -> None:
        if (left := self._rests.left(place)) > 0:
            if self._line.waits(place):
                asyncio.get_running_loop().call_later(left, self._wake, place)
            return
        self._serve()


class Place:
    """One place of one tenant; written out, for it is entered around every read."""

    __slots__ = ("_first", "_semaphore", "_since", "_tenant")

    def __init__(self, semaphore: FairSemaphore, tenant: str, *, first: bool) -> None:
        self._semaphore = semaphore
        self._tenant = tenant
        self._first = first
        self._since = 0.0

    async def __aenter__(self) -> None:
        await self._semaphore.enter(self._tenant, first=self._first)
        self._since = time.monotonic()

    async def __aexit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._semaphore.leave(self._tenant, time.monotonic() - self._since)


class Holding:
    """The holding of one piece of work, a part after the other. It is given back when its context ends."""

    __slots__ = ("_semaphore", "_size", "_tenant")

    def __init__(self, semaphore: FairSemaphore, tenant: str) -> None:
        self._semaphore = semaphore
        self._tenant = tenant
        self._size = 0

    def expect(self, size: int) -> None:
        """Refuse already now a part without room. Raises as FairSemaphore.check."""
        self._semaphore.check(self._tenant, size)

    def take(self, size: int) -> None:
        """Count a part in. Raises as FairSemaphore.check."""
        self._semaphore.take(self._tenant, size)
        self._size += size

    def give_back(self, size: int) -> None:
        """Count a part out before the end."""
        self._semaphore.leave(self._tenant, weight=size)
        self._size -= size

    def close(self) -> None:
        """Give back the rest."""
        if self._size:
            self.give_back(self._size)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.close()
