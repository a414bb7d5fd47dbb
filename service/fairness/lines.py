"""Lines that are served in turn: of each the first, then of each the second (P27); and a queue of them for threads.

The members of a shared place (see tenants.py) have one line, and take turns in it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Generic, TypeVar

from service.fairness.tenants import member_of, place_of

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
