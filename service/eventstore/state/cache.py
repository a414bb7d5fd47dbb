"""States that a writer has already folded, checked against the locked head before they are used.

Filled only after COMMIT was answered, or from what was read outside of a transaction, and emptied on every error: a
cached state is never ahead of the log.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from service.eventstore.state.weighing import weigh
from service.weighted import Weighted

StreamName = tuple[str, str]

MEBIBYTE: Final = 1024 * 1024
KEPT_BYTES: Final = 32 * MEBIBYTE
"""Memory of the states that a loop keeps."""
KEPT_DOCUMENTS_BYTES: Final = 16 * MEBIBYTE
"""The same of the loop for documents: whose are large and rarely written, a process does not stay larger for."""
ENTRY: Final = 1024
"""Bytes of memory that a stream costs beside its state and rows: names, hashes, and its places in the maps."""
PER_BYTE: Final = 6
"""Bytes of memory that a byte of JSON becomes, at most, in a state and its rows of the usual kind."""
GUESSED: Final = 16 * 1024
"""Bytes of weight that may be guessed by PER_BYTE before a stream is weighed: weighing a small one costs too much."""

LENT_BYTES: Final = 16 * MEBIBYTE
"""Memory of streams too heavy to keep that are held for the commands that wait for them, beside the last one."""


class StreamMark(NamedTuple):
    """A place in a stream: a revision, and the bytes of payload that its head had counted there (-1: not counted)."""

    revision: int = 0
    bytes: int = 0


START: Final = StreamMark()


class Weight(NamedTuple):
    """Bytes of memory, and how many of them are guessed."""

    bytes: int
    guessed: int = 0

    def grown(self, json_bytes: int, state: Any, rows: Mapping[str, Any]) -> Weight:
        """The weight after events (or whatever was read) of so many bytes; weighs anew when too much is guessed."""
        guess = PER_BYTE * json_bytes
        if self.guessed + guess <= max(GUESSED, (self.bytes - self.guessed) // 4):
            return Weight(self.bytes + guess, self.guessed + guess)
        return Weight(ENTRY + weigh(state, rows))


NOTHING: Final = Weight(ENTRY)


class KnownStream(msgspec.Struct, frozen=True):
    """A stream as it stood at `mark`: its chain, its state, and its read-model rows by table name."""

    mark: StreamMark
    chain: bytes
    state: Any
    rows: dict[str, Any]
    weight: Weight
    snapshot: StreamMark = START  # the newest stored snapshot

    @property
    def revision(self) -> int:
        """The revision of `state`."""
        return self.mark.revision


class StateCache:
    """A map from stream to `Known` that is bounded by weight, least recently used out first.

    A stream heavier than `max_entry` is refused: it would drive out too many others.
    """

    def __init__(self, max_entries: int = 20_000, max_bytes: int = KEPT_BYTES, max_entry: int = 8 * MEBIBYTE) -> None:
        self._entries: Weighted[StreamName, KnownStream] = Weighted(
            lambda known: known.weight.bytes, max_bytes=max_bytes, max_entry=max_entry, max_entries=max_entries
        )
        self._lent: OrderedDict[StreamName, KnownStream] = OrderedDict()
        self._tables: dict[str, int] = {}
        self.faults: dict[StreamName, Exception] = {}
        """What is wrong with streams that could not be loaded, for those that wait for them."""

    def keeps_to(self, tables: Mapping[str, int]) -> bool:
        """Check that the read models are still the tables (name to oid) whose rows are kept here.

        When one was replaced by a rebuild, everything is forgotten: its rows may be what the rebuild has mended.
        """
        kept = all(self._tables.get(name, oid) == oid for name, oid in tables.items())
        if not kept:
            self.clear()
        self._tables.update(tables)
        return kept

    def get(self, name: StreamName) -> KnownStream | None:
        """Return what is known of a stream."""
        return self._entries.get(name) or self._lent.get(name)

    def peek(self, name: StreamName) -> KnownStream | None:
        """Return what is known of a stream without counting as use: from any thread."""
        return self._entries.peek(name)

    def put(self, name: StreamName, known: KnownStream) -> bool:
        """Remember a stream; forgets the least recently used beyond the bounds. False: refused as too heavy."""
        self._lent.pop(name, None)
        return self._entries.put(name, known)

    def lend(self, name: StreamName, known: KnownStream) -> None:
        """Take in what was loaded outside of a transaction, unless a later state is here already.

        What is too heavy to keep stays until a round has written it, or others of LENT_BYTES came after it.
        """
        here = self.get(name)
        if (here is None or here.revision < known.revision) and not self.put(name, known):
            self._lent[name] = known
            while len(self._lent) > 1 and sum(other.weight.bytes for other in self._lent.values()) > LENT_BYTES:
                self._lent.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._lent.clear()
        self.faults.clear()

    @property
    def bytes(self) -> int:
        """Bytes of memory held."""
        return self._entries.bytes

    def __len__(self) -> int:
        return len(self._entries)
