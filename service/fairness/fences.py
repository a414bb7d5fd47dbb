"""The line before the fence lane: tenants in turn, one fence of each at a time, and stops before saves.

A fence may take a second, because it waits for whoever holds its gate. So no tenant holds more than one thread of the
lane, however many fences it sends; and what takes authority away never waits behind what puts some in place.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Generic, Protocol, TypeVar


class Fence(Protocol):
    """What waits: of whom, and whether it puts authority in place (a save) or takes it away (a stop)."""

    @property
    def tenant(self) -> str:
        """Whose turn it takes."""

    @property
    def saves(self) -> bool:
        """Whether stops go before it."""


F = TypeVar("F", bound=Fence)


class _Line(Generic[F]):
    """The fences of one tenant that wait, each kind in order of arrival."""

    def __init__(self) -> None:
        self.stops: deque[F] = deque()
        self.saves: deque[F] = deque()

    def __len__(self) -> int:
        return len(self.stops) + len(self.saves)

    def add(self, entry: F) -> None:
        (self.saves if entry.saves else self.stops).append(entry)

    def next(self) -> F:
        return (self.stops or self.saves).popleft()


class FenceQueue(Generic[F]):
    """At most `capacity` fences wait, `per_tenant` of one tenant. For any number of threads."""

    def __init__(self, *, capacity: int, per_tenant: int) -> None:
        self._capacity = capacity
        self._per_tenant = per_tenant
        self._lines: dict[str, _Line[F]] = {}  # by tenant, in the order of their next turns
        self._running: set[str] = set()
        self._aside = 0
        self._again: deque[F] = deque()
        self._count = 0
        self._open = True
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return self._count

    def put(self, entry: F) -> bool:
        """Queue a fence; False when the queue or its tenant's share is full, or after `close`."""
        with self._changed:
            line = self._lines.get(entry.tenant) or _Line()
            if not self._open or self._count >= self._capacity or len(line) >= self._per_tenant:
                return False
            line.add(entry)
            self._lines[entry.tenant] = line
            self._count += 1
            self._changed.notify()
            return True

    def take(self) -> F | None:
        """Wait for the next fence; None when it is closed and nothing is left that this thread could do.

        `done` gives its tenant the next turn.
        """
        with self._changed:
            while True:
                if self._again:
                    return self._again.popleft()
                tenant = self._next_tenant()
                if tenant is not None:
                    return self._next_of(tenant)
                if not self._open and not self._count and not self._aside:
                    return None
                self._changed.wait()

    def set_aside(self) -> None:
        """Leave a fence that was taken to somebody who makes it ready; its tenant keeps its turn meanwhile."""
        with self._changed:
            self._aside += 1

    def again(self, entry: F) -> None:
        """Have a fence that was set aside taken again, before all others: it has had its turn."""
        with self._changed:
            self._aside -= 1
            self._again.append(entry)
            self._changed.notify()

    def done(self, entry: F) -> None:
        """End the turn of a fence that was taken."""
        with self._changed:
            self._running.discard(entry.tenant)
            self._changed.notify_all()

    def close(self) -> None:
        """Take nothing more in, and let the threads end once the queue is empty."""
        with self._changed:
            self._open = False
            self._changed.notify_all()

    def _next_tenant(self) -> str | None:
        """The first in turn that has a stop, else the first that has anything; nobody who holds a thread."""
        free = [tenant for tenant in self._lines if tenant not in self._running]
        return next((tenant for tenant in free if self._lines[tenant].stops), free[0] if free else None)

    def _next_of(self, tenant: str) -> F:
        line = self._lines.pop(tenant)
        entry = line.next()
        if line:
            self._lines[tenant] = line
        self._running.add(tenant)
        self._count -= 1
        return entry
