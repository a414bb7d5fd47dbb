"""Who is meant where tenants take turns, who is about, who rests, and what is told to those who waited in vain.

One tenant may have more work than all others together; whoever has little waits for one turn of each, never for the
whole of somebody's line (P25, P27). The members of a shared place are one tenant here, in turn among themselves. The
queue (queue.py) and the semaphore (semaphore.py) serve them so.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable
from functools import lru_cache
from typing import ClassVar, Generic, TypeVar
from weakref import WeakSet

# The names of tenants in turns: a tenant's own, or that of a shared place with its member (G-204). All callers without
# a credential are one against tenants, however many addresses they have. Inside that place they take turns by address.
# So strangers have one share, and no stranger stops another.

STRANGERS = "strangers"
"""The place of callers without a credential, and of credentials before their first look-up."""
SIGN_IN = "sign-in"
PUBLIC_QUERIES = "public-queries"
"""The place of requests for unknown publications. A known one has its own."""
PAYMENTS = "payments"
NOBODY = ""
"""The tenant of requests outside of all turns."""

_BETWEEN = " "
"""It is in no id, no name of a place and no address."""
NAMES = 4096
"""Names that are known in parts: each queue asks for these several times for an entry."""


def sharing(place: str, member: str) -> str:
    """Name a member of a shared place. NOBODY shares none."""
    return place and f"{place}{_BETWEEN}{member}"


@lru_cache(NAMES)
def place_of(tenant: str) -> str:
    """The place of a tenant against the others: its own, or the shared one."""
    return tenant.partition(_BETWEEN)[0]


@lru_cache(NAMES)
def member_of(tenant: str) -> str:
    """The member inside a shared place. Empty for a tenant with a place of its own."""
    return tenant.partition(_BETWEEN)[2]


K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


# What whoever waits in vain is told: nothing was done, and it may be tried again.


class CommandNotDone(Exception):
    """The command certainly did not run (queue full, deadline, too many waiting): 503, safe to retry."""


class ReadNotDone(CommandNotDone):
    """A read had no turn or no end in time: 503 to its caller alone, safe to repeat."""


SHORT = 0.005
"""Seconds for which a place may be held by anybody as often as they like."""
ABOUT = 1.0
"""Seconds after which a tenant counts as gone."""
LONGEST = 0.5
"""Seconds that a tenant rests at most, however long it held what it held: within its next request's deadline."""
MANY = 1000
"""Tenants that have rested, from which on those are forgotten whose rest is over."""


def fair_shares(wanted: Iterable[tuple[str, int]], size: int) -> dict[str, int]:
    """Share `size` places among tenants that want so many each: nobody gets more than another who wants more still."""
    shares: dict[str, int] = {}
    ordered = sorted(wanted, key=lambda pair: pair[1])
    for number, (tenant, count) in enumerate(ordered):
        shares[tenant] = min(count, -(-size // (len(ordered) - number)))
        size -= shares[tenant]
    return shares


class Company:
    """Who is about: whether anybody else has been, in the last ABOUT seconds, than who was last."""

    __slots__ = ("_at", "_last", "_other_at")

    def __init__(self) -> None:
        self._last = ""
        self._at = self._other_at = -ABOUT

    def note(self, tenant: str) -> None:
        """Say that a tenant is about. The members of a shared place are one."""
        place = place_of(tenant)
        if place != self._last:
            self._last, self._other_at = place, self._at
        self._at = time.monotonic()

    @property
    def several(self) -> bool:
        """Whether more than one tenant is about."""
        return time.monotonic() - self._other_at <= ABOUT


class Rests:
    """Until when tenants leave something scarce to others. The members of a shared place rest together.

    The last `spared` seconds of a rest are nobody's concern: they count in no figure. `begun` counts the rests of this
    process.
    """

    begun: ClassVar[int] = 0
    _all: ClassVar[WeakSet[Rests]] = WeakSet()

    def __init__(self, spared: float = 0) -> None:
        self._until: dict[str, float] = {}
        self._spared = spared
        Rests._all.add(self)

    @classmethod
    def resting(cls) -> int:
        """How many tenants rest now from anything in this process."""
        return len({tenant for rests in cls._all for tenant in rests.tenants()})

    def tenants(self) -> list[str]:
        """Those that rest now, without those whose rest is nobody's concern."""
        now = time.monotonic()
        return [tenant for tenant in self._until if self._counts(tenant, now)]

    def left(self, tenant: str) -> float:
        """For how many seconds a tenant rests still; none if it is not positive."""
        place = place_of(tenant)
        until = self._until.get(place)
        if until is None:
            return 0
        left = until - time.monotonic()
        if left <= 0:
            del self._until[place]
        return left

    def add(self, tenant: str, seconds: float) -> None:
        """Let a tenant rest for so many seconds more, LONGEST in all at most."""
        now = time.monotonic()
        if len(self._until) >= MANY:
            self._until = {name: until for name, until in self._until.items() if until > now}
        place = place_of(tenant)
        counted = self._counts(place, now)
        self._until[place] = min(max(self._until.get(place, now), now) + seconds, now + LONGEST)
        if not counted and self._counts(place, now):
            Rests.begun += 1

    def _counts(self, tenant: str, now: float) -> bool:
        return self._until.get(tenant, now) > now + self._spared


# Shared reads: one for all callers of a moment, begun after each of them had asked.


class Looks(Generic[K, T]):
    """Shares the reads of a process by name. No caller is told a state from before the call.

    During a read, callers wait for the next one. So a name has two reads at most, however many ask for it.
    """

    def __init__(self, read: Callable[[K], Awaitable[T]]) -> None:
        self._read = read
        self._begun: dict[K, asyncio.Future[None]] = {}  # over with the read
        self._waiting: dict[K, asyncio.Task[T]] = {}

    async def look(self, name: K) -> T:
        """Read, or share the next read. Raises as the read does.

        A read takes the turn of its first caller. Without that turn, the others read for themselves.
        """
        shared = self._waiting.get(name)
        if shared is not None:
            try:
                return await asyncio.shield(shared)
            except ReadNotDone:
                return await self._read(name)
        if name in self._begun:
            return await asyncio.shield(self._share(name))
        return await self._look(name)

    def look_ahead(self, name: K) -> None:
        """Begin a read that nobody waits for, unless there is one under way."""
        if name not in self._begun and name not in self._waiting:
            self._share(name)

    def _share(self, name: K) -> asyncio.Task[T]:
        task = self._waiting[name] = asyncio.create_task(self._look_after(name))
        task.add_done_callback(_hear)
        return task

    async def _look_after(self, name: K) -> T:
        if (former := self._begun.get(name)) is not None:
            await asyncio.wait([former])
        del self._waiting[name]
        return await self._look(name)

    async def _look(self, name: K) -> T:
        ended = self._begun[name] = asyncio.get_running_loop().create_future()
        try:
            return await self._read(name)
        finally:
            ended.set_result(None)
            if self._begun.get(name) is ended:
                del self._begun[name]


def _hear(task: asyncio.Task[T]) -> None:
    """Take note of a failure, also where every caller has gone meanwhile."""
    if not task.cancelled():
        task.exception()
