"""Whose work comes next: a few places that tenants take in turn, and how a number of things is shared among them.

One tenant may have more work than all others together; whoever has little waits for one turn of each, never for the
whole of somebody's line (P25, P27). The members of a shared place are one tenant here, in turn among themselves.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import chain
from types import TracebackType
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


def sharing(place: str, member: str) -> str:
    """Name a member of a shared place. NOBODY shares none."""
    return place and f"{place}{_BETWEEN}{member}"


def place_of(tenant: str) -> str:
    """The place of a tenant against the others: its own, or the shared one."""
    return tenant.partition(_BETWEEN)[0]


def member_of(tenant: str) -> str:
    """The member inside a shared place. Empty for a tenant with a place of its own."""
    return tenant.partition(_BETWEEN)[2]


# Lines that are served in turn: of each the first, then of each the second (P27); and a queue of them for threads. The
# members of a shared place (see tenants.py) have one line, and take turns in it.

T = TypeVar("T")


class PlaceLine(Generic[T]):
    """The things of one place in order of arrival, and of a shared place its members in turn."""

    __slots__ = ("_members",)

    def __init__(self) -> None:
        self._members: dict[str, deque[T]] = {}  # in the order of their next turns

    def __bool__(self) -> bool:
        return bool(self._members)

    def __len__(self) -> int:
        return sum(map(len, self._members.values()))

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(self._members.values())

    def count(self, tenant: str) -> int:
        """How many things of a tenant wait."""
        return len(self._members.get(member_of(tenant), ()))

    def add(self, tenant: str, thing: T) -> None:
        """Add a thing behind the others of its tenant."""
        self._members.setdefault(member_of(tenant), deque()).append(thing)

    def take(self) -> T:
        """Take the first thing of the next member, and make it the last in turn. There must be one."""
        member, things = next(iter(self._members.items()))
        thing = things.popleft()
        if not things:
            del self._members[member]
        elif len(self._members) > 1:
            self._members[member] = self._members.pop(member)
        return thing

    def drop(self, unwanted: Callable[[T], bool]) -> list[T]:
        """Take out what is unwanted; the turns stay as they are."""
        dropped: list[T] = []
        for member, things in list(self._members.items()):
            dropped += [thing for thing in things if unwanted(thing)]
            kept = deque(thing for thing in things if not unwanted(thing))
            if kept:
                self._members[member] = kept
            else:
                del self._members[member]
        return dropped


class Lines(Generic[T]):
    """A line of things for each place, in the order of their next turns. Its owner holds a lock, if one is needed."""

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        self._lines: dict[str, PlaceLine[T]] = {}

    def __bool__(self) -> bool:
        return bool(self._lines)

    def add(self, name: str, thing: T) -> None:
        """Add a thing to the end of the line of a tenant."""
        place = place_of(name)
        line = self._lines.get(place)
        if line is None:
            line = self._lines[place] = PlaceLine()
        line.add(name, thing)

    def take(self) -> T:
        """Take the first of the line whose turn it is, which is the last one afterwards. There must be one."""
        place, line = next(iter(self._lines.items()))
        thing = line.take()
        if not line:
            del self._lines[place]
        elif len(self._lines) > 1:
            self._lines[place] = self._lines.pop(place)
        return thing

    def drop(self, unwanted: Callable[[T], bool]) -> list[T]:
        """Take out what is unwanted; the turns stay as they are."""
        dropped: list[T] = []
        for place, line in list(self._lines.items()):
            dropped += line.drop(unwanted)
            if not line:
                del self._lines[place]
        return dropped

    def clear(self) -> None:
        """Forget everything."""
        self._lines.clear()


class InTurn(Generic[T]):
    """Unbounded: whoever puts things in has bounded them. For any number of threads."""

    def __init__(self) -> None:
        self._lines: Lines[T] = Lines()
        self._open = True
        self._changed = threading.Condition()

    def put(self, tenant: str, thing: T) -> None:
        """Add a thing to the end of a tenant's line."""
        with self._changed:
            self._lines.add(tenant, thing)
            self._changed.notify()

    def take(self) -> T | None:
        """Wait for the next thing; None after `close`, when nothing is left."""
        with self._changed:
            while not self._lines:
                if not self._open:
                    return None
                self._changed.wait()
            return self._lines.take()

    def close(self, *, drop: bool = False) -> None:
        """Let those who take end: once it is empty, or with `drop` at once."""
        with self._changed:
            self._open = False
            if drop:
                self._lines.clear()
            self._changed.notify_all()


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


class Turns:
    """Places of one event loop: at most `per_tenant` of them for one tenant, of which at most `waiting` wait.

    The members of a shared place (see tenants.py) have the places of one tenant together, and a line each.

    While a place is free, everybody who waits holds as many as one may, or rests: a tenant that has held a place for
    long while others were about, has none for `rest` times as long. So it cannot take the processors from those who
    need places for moments, nor from what needs none; alone it never rests. Nobody waits for longer than `patience`
    seconds.
    """

    def __init__(
        self, places: int, per_tenant: int, waiting: int, rest: float = 0, patience: float | None = None
    ) -> None:
        self._free = places
        self._per_tenant = per_tenant
        self._most = waiting
        self._rest = rest
        self._patience = patience
        self._running: dict[str, int] = {}
        self._waiting: dict[str, PlaceLine[asyncio.Future[None]]] = {}  # in the order of their next turns
        self._rests = Rests()
        self._company = Company()

    @property
    def waiting(self) -> int:
        """How many wait for a place."""
        return sum(map(len, self._waiting.values()))

    def place(self, tenant: str) -> Place:
        """Hold a place for a block, waiting for one in turn. Raises ReadNotDone when too many of the tenant wait."""
        return Place(self, tenant)

    async def enter(self, tenant: str) -> None:
        """Take a place, waiting for one in turn. Raises as `place`, and ReadNotDone when none came in time."""
        place = place_of(tenant)
        if self._free and self._may(place):
            self._take(place)
            return
        try:
            async with asyncio.timeout(self._patience):
                await self._wait(place, tenant)
        except TimeoutError:
            raise ReadNotDone from None

    def _may(self, place: str) -> bool:
        return self._running.get(place, 0) < self._per_tenant and self._rests.left(place) <= 0

    async def _wait(self, place: str, tenant: str) -> None:
        line = self._waiting.get(place)
        if line is None:
            line = self._waiting[place] = PlaceLine()
        if line.count(tenant) >= self._most:
            raise ReadNotDone
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        line.add(tenant, turn)
        left = self._rests.left(place)
        if left > 0 or self._free:  # Nobody may give a place back just then, and its rest be over by now.
            loop.call_later(max(0, left), self._wake, place)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # The place was given in the same moment.
                self.leave(tenant)
            elif line.drop(lambda one: one is turn) and not line:
                del self._waiting[place]
            raise

    def _take(self, place: str) -> None:
        self._free -= 1
        self._running[place] = self._running.get(place, 0) + 1

    def leave(self, tenant: str, held: float = 0.0) -> None:
        """Give back a place that was held so many seconds, and to whoever is next: one that had its turn goes last."""
        place = place_of(tenant)
        self._free += 1
        left = self._running.pop(place) - 1
        if left:
            self._running[place] = left
        if self._rest:
            self._let_rest(place, held)
        self._serve()

    def _serve(self) -> None:
        for place in list(self._waiting):
            if self._may(place) and self._hand_over(place):
                return

    def note(self, tenant: str) -> None:
        """Say that a tenant is about, also when it needs no place."""
        self._company.note(tenant)

    def _let_rest(self, place: str, held: float) -> None:
        self.note(place)
        if held < SHORT or not self._company.several:
            return
        self._rests.add(place, held * self._rest)
        if place in self._waiting:
            self._wake(place)

    def _wake(self, place: str) -> None:
        if (left := self._rests.left(place)) > 0:
            if place in self._waiting:
                asyncio.get_running_loop().call_later(left, self._wake, place)
            return
        while self._free and place in self._waiting and self._may(place) and self._hand_over(place):
            pass

    def _hand_over(self, place: str) -> bool:
        """Give a tenant its turn; False when all who waited have just gone away."""
        line = self._waiting.pop(place)
        while line:
            turn = line.take()
            if not turn.done():
                if line:
                    self._waiting[place] = line
                self._take(place)
                turn.set_result(None)
                return True
        return False


class Place:
    """One place of one tenant; written out, for it is entered around every read."""

    __slots__ = ("_since", "_tenant", "_turns")

    def __init__(self, turns: Turns, tenant: str) -> None:
        self._turns = turns
        self._tenant = tenant
        self._since = 0.0

    async def __aenter__(self) -> None:
        await self._turns.enter(self._tenant)
        self._since = time.monotonic()

    async def __aexit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._turns.leave(self._tenant, time.monotonic() - self._since)


# Shared reads: one for all callers of a moment, begun after each of them had asked.


class Looks(Generic[T]):
    """Shares the reads of a process by name. No caller is told a state from before the call.

    During a read, callers wait for the next one. So a name has two reads at most, however many ask for it.
    """

    def __init__(self, read: Callable[[str], Awaitable[T]]) -> None:
        self._read = read
        self._begun: dict[str, asyncio.Task[T]] = {}
        self._waiting: dict[str, asyncio.Task[T]] = {}

    async def look(self, name: str) -> T:
        """Read, or share the next read. Raises as the read does.

        A read takes the turn of its first caller. Without that turn, the others read for themselves.
        """
        shared = self._waiting.get(name)
        if shared is not None:
            try:
                return await asyncio.shield(shared)
            except ReadNotDone:
                return await self._read(name)
        task = asyncio.create_task(self._look_after(self._begun.get(name), name))
        self._waiting[name] = task
        task.add_done_callback(_hear)
        return await asyncio.shield(task)

    async def _look_after(self, former: asyncio.Task[T] | None, name: str) -> T:
        if former is not None:
            await asyncio.wait([former])
        task = self._begun[name] = self._waiting.pop(name)
        try:
            return await self._read(name)
        finally:
            if self._begun.get(name) is task:
                del self._begun[name]


def _hear(task: asyncio.Task[T]) -> None:
    """Take note of a failure, also where every caller has gone meanwhile."""
    if not task.cancelled():
        task.exception()
