"""Lines that are served in turn: of each the first, then of each the second (P27); and a queue of them for threads."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Lines(Generic[T]):
    """A line of things for each name, in the order of their next turns. Its owner holds a lock, if one is needed."""

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        self._lines: dict[str, deque[T]] = {}

    def __bool__(self) -> bool:
        return bool(self._lines)

    def add(self, name: str, thing: T) -> None:
        """Add a thing to the end of a line."""
        self._lines.setdefault(name, deque()).append(thing)

    def take(self) -> T:
        """Take the first of the line whose turn it is, which is the last one afterwards. There must be one."""
        name, line = next(iter(self._lines.items()))
        thing = line.popleft()
        if not line:
            del self._lines[name]
        elif len(self._lines) > 1:
            self._lines[name] = self._lines.pop(name)
        return thing

    def drop(self, unwanted: Callable[[T], bool]) -> list[T]:
        """Take out what is unwanted; the turns stay as they are."""
        dropped: list[T] = []
        for name, line in list(self._lines.items()):
            dropped += [thing for thing in line if unwanted(thing)]
            kept = deque(thing for thing in line if not unwanted(thing))
            if kept:
                self._lines[name] = kept
            else:
                del self._lines[name]
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
