"""A map that is bounded by the weight of what it holds, least recently used out first (P26)."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

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
