"""How much may be held: in all, by one tenant, by one member of a shared place, and by a map (P25, P26, G-204).

What is held is counted by name, in places or in bytes. A name without anything is forgotten, so nothing here grows past
what is held now. Limits are those of a machine, and each API process there keeps to its share of them (G-012).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from enum import Enum
from math import inf
from typing import Generic, TypeVar

from service.fairness.turns import place_of


class Share:
    """The share of one process in the limits of its machine: one part in `processes`.

    Whoever starts the API processes says how many there are, before they make what has limits. Without a word a process
    is alone, and its share is the limit. Shares stay as they are while a process is started anew.
    """

    __slots__ = ("processes",)

    def __init__(self) -> None:
        self.processes = 1

    def of(self, limit: int, least: int = 1) -> int:
        """Return the share of a limit, rounded down: all shares together never exceed it.

        No share is below `least`, or below the limit where that is lower still. `least` is 2 for places of several
        tenants, because one tenant would take the only place of a process.
        """
        return max(limit // self.processes, min(least, limit))


SHARE = Share()
"""The one of this process."""


class Full(Enum):
    """A bound without room."""

    ALL = "all"
    TENANT = "tenant"
    MEMBER = "member"


class FairBounds:
    """What tenants hold, and how much they may.

    `most` bounds all together, `per_tenant` one tenant, `per_place` the members of a shared place together and
    `per_member` one of them. Without these two, a shared place has the bound of one tenant, and a member that of its
    place.

    `leaving`: nobody may hold more than is left free after it, and a member no more than three quarters of that, unless
    it holds nothing. So one alone fills half, and there is room for another one however many flood.

    `for_first`: the last so many are for tenants without anything.
    """

    __slots__ = ("_for_first", "_leaving", "_most", "_of", "_per_member", "_per_place", "_per_tenant", "held")

    def __init__(
        self,
        most: float = inf,
        *,
        per_tenant: float = inf,
        per_place: float | None = None,
        per_member: float | None = None,
        leaving: bool = False,
        for_first: int = 0,
    ) -> None:
        self._most = most
        self._per_tenant = per_tenant
        self._per_place = per_tenant if per_place is None else per_place
        self._per_member = self._per_place if per_member is None else per_member
        self._leaving = leaving
        self._for_first = for_first
        self._of: dict[str, int] = {}
        self.held = 0
        """The sum of all holdings."""

    def __len__(self) -> int:
        return len(self._of)

    @property
    def free(self) -> float:
        """Places of nobody. Negative after one was let in with more than was free."""
        return self._most - self.held

    def of(self, name: str) -> int:
        """The holding of a tenant, a shared place or a member."""
        return self._of.get(name, 0)

    def may(self, place: str) -> bool:
        """Whether a tenant, or the members of a shared place together, may hold anything more."""
        return self._of.get(place, 0) < self._per_place

    def full(self, name: str, weight: int = 1) -> Full | None:
        """The bound without room for so much more of a tenant or member. None if there is room."""
        of = self._of.get
        place = place_of(name)
        held = of(place, 0)
        if place == name:
            if held + weight > self._per_tenant:
                return Full.TENANT
        elif of(name, 0) + weight > self._per_member:
            return Full.MEMBER
        elif held + weight > self._per_place:
            return Full.TENANT
        free = self._most - self.held
        if weight > free - (self._for_first if held else 0):
            return Full.ALL
        return self._full_for_others(of(name, 0), held, weight, free) if self._leaving else None

    def _full_for_others(self, mine: int, held: int, weight: int, free: float) -> Full | None:
        """As `full`, for the sake of others: of a name with `mine`, in a place with `held`."""
        if held + weight > free:
            return Full.TENANT
        return Full.MEMBER if mine and 4 * (mine + weight) > 3 * free else None

    def add(self, name: str, weight: int = 1) -> None:
        """Count so much in, whatever the bounds; with a negative weight, out."""
        self.held += weight
        of = self._of
        place = place_of(name)
        if left := of.get(name, 0) + weight:
            of[name] = left
        else:
            of.pop(name, None)
        if place != name:
            if left := of.get(place, 0) + weight:
                of[place] = left
            else:
                of.pop(place, None)

    def clear(self) -> None:
        """Let everybody hold nothing."""
        self._of.clear()
        self.held = 0


# A map that is bounded by the weight of what it holds, least recently used out first (P26).

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Weighted(Generic[K, V]):
    """At most `max_bytes` together, and `max_entry` each. `weigh` gives the cost of a value in bytes of memory."""

    def __init__(
        self, weigh: Callable[[V], int], *, max_bytes: int, max_entry: int | None = None, max_entries: int = 20_000
    ) -> None:
        self._weigh = weigh
        self._max_bytes = max_bytes
        self._max_entry = max_bytes if max_entry is None else min(max_entry, max_bytes)
        self._max_entries = max_entries
        self._held: OrderedDict[K, V] = OrderedDict()
        self.bytes = 0
        """What it weighs."""

    def get(self, key: K) -> V | None:
        """Return a value, and count that as use."""
        value = self._held.get(key)
        if value is not None:
            self._held.move_to_end(key)
        return value

    def peek(self, key: K) -> V | None:
        """Return a value without counting as use: from any thread."""
        return self._held.get(key)

    def put(self, key: K, value: V) -> bool:
        """Keep a value, and forget the least recently used beyond the bounds. False: refused as too heavy."""
        previous = self._held.pop(key, None)
        if previous is not None:
            self.bytes -= self._weigh(previous)
        weight = self._weigh(value)
        if weight > self._max_entry:
            return False
        self.bytes += weight
        self._held[key] = value
        while len(self._held) > self._max_entries or self.bytes > self._max_bytes:
            _, dropped = self._held.popitem(last=False)
            self.bytes -= self._weigh(dropped)
        return True

    def clear(self) -> None:
        """Forget everything."""
        self._held.clear()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._held)
