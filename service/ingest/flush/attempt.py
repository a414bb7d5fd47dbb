"""A flush and what becomes of its records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from service.eventstore.declare.commands import Outcome
from service.ingest.queue.items import STORED, Item

NO_HEADERS: Mapping[str, str] = {}
TAKEN = Outcome(STORED, b"", NO_HEADERS)
"""What is told of a part of an export: nobody reads answers to it."""
REPEATED = Outcome(STORED, b"", NO_HEADERS, replayed=True)


class Stored(NamedTuple):
    """A record that the transaction stores, and whether a rule keeps it out of attention."""

    item: Item
    suppressed: bool


@dataclass(slots=True)
class Attempt:
    """A flush and what becomes of its records: stored (once it is committed), settled without it, or held.

    From `committing` on, what is stored may be committed. `received_at` is its time of receipt in epoch seconds, known
    once the database has told it.
    """

    number: int
    items: Sequence[Item]
    received_at: int = 0
    stored: list[Stored] = field(default_factory=list)
    settled: list[tuple[Item, Outcome | Exception]] = field(default_factory=list)
    held: list[Item] = field(default_factory=list)
    committing: bool = False

    def answers(self) -> Iterable[tuple[Item, Outcome | Exception]]:
        """What the callers are told once the flush is committed; those of held records are told later."""
        for item, _ in self.stored:
            if item.part is None:
                yield item, Outcome(STORED, item.answer(self.received_at), NO_HEADERS)
            else:
                yield item, TAKEN
        yield from self.settled
