"""A queue between threads that serves tenants in turn: of each the first, then of each the second (P27)."""

from __future__ import annotations

import threading
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class InTurn(Generic[T]):
    """Unbounded: whoever puts things in has bounded them. For any number of threads."""

    def __init__(self) -> None:
        self._lines: dict[str, deque[T]] = {}  # in the order of their next turns
        self._open = True
        self._changed = threading.Condition()

    def put(self, tenant: str, thing: T) -> None:
        """Add a thing to the end of a tenant's line."""
        with self._changed:
            self._lines.setdefault(tenant, deque()).append(thing)
            self._changed.notify()

    def take(self) -> T | None:
        """Wait for the next thing; None after `close`, when nothing is left."""
        with self._changed:
            while not self._lines:
                if not self._open:
                    return None
                self._changed.wait()
            tenant = next(iter(self._lines))
            line = self._lines.pop(tenant)
            thing = line.popleft()
            if line:
                self._lines[tenant] = line
            return thing

    def close(self, *, drop: bool = False) -> None:
        """Let those who take end: once it is empty, or with `drop` at once."""
        with self._changed:
            self._open = False
            if drop:
                self._lines.clear()
            self._changed.notify_all()
