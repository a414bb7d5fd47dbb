"""States a loop has already folded, checked against the locked head before they are used.

Filled only after COMMIT was answered, and emptied on every error: a cached state is never ahead of the log.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

StreamName = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Known:
    """A stream as it stood at `revision`: its chain, its state, and its read-model rows by table name."""

    revision: int
    chain: bytes
    state: Any
    rows: dict[str, Any]
    size: int  # bytes of payload folded in, as a measure of weight
    snapshot_revision: int = 0  # revision of the newest stored snapshot


class StateCache:
    """A bounded map from stream to `Known`, least recently used out first."""

    def __init__(self, max_entries: int = 20_000, max_bytes: int = 32 * 1024 * 1024) -> None:
        self._entries: OrderedDict[StreamName, Known] = OrderedDict()
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._bytes = 0
        self._tables: dict[str, int] = {}

    def keeps_to(self, tables: Mapping[str, int]) -> bool:
        """Check that the read models are still the tables (name to oid) whose rows are kept here.

        When one was replaced by a rebuild, everything is forgotten: its rows may be what the rebuild has mended.
        """
        kept = all(self._tables.get(name, oid) == oid for name, oid in tables.items())
        if not kept:
            self.clear()
        self._tables.update(tables)
        return kept

    def get(self, name: StreamName) -> Known | None:
        """Return what is known of a stream."""
        known = self._entries.get(name)
        if known is not None:
            self._entries.move_to_end(name)
        return known

    def peek(self, name: StreamName) -> Known | None:
        """Return what is known of a stream without counting as use: from any thread."""
        return self._entries.get(name)

    def put(self, name: StreamName, known: Known) -> None:
        """Remember a committed stream; forgets the least recently used beyond the bounds."""
        previous = self._entries.pop(name, None)
        self._bytes += known.size - (previous.size if previous else 0)
        self._entries[name] = known
        while self._entries and (len(self._entries) > self._max_entries or self._bytes > self._max_bytes):
            _, dropped = self._entries.popitem(last=False)
            self._bytes -= dropped.size

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._entries)
