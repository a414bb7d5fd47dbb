"""What became of a batch of records, as one flush or several have settled it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from service.eventstore.declare.commands import Outcome
from service.ingest.flush.attempt import Attempt
from service.ingest.queue.items import Item


@dataclass(slots=True)
class Settlement:
    """Who is told what, who waits on because something was held, and what there is to count."""

    answers: list[tuple[Item, Outcome | Exception]] = field(default_factory=list)
    held: list[Item] = field(default_factory=list)
    flushes: int = 0
    stored: int = 0
    suppressed: int = 0
    repeated: int = 0
    adjusted: int = 0
    scrubbed: Counter[str] = field(default_factory=Counter)

    def add(self, attempt: Attempt) -> None:
        """Take over what a flush has decided, after its commit if it had one."""
        self.flushes += 1
        self.stored += len(attempt.stored)
        self.repeated += sum(isinstance(result, Outcome) for _, result in attempt.settled)
        for item, suppressed in attempt.stored:
            self.suppressed += suppressed
            self.adjusted += item.adjustments.changes
            if item.scrubbed:
                self.scrubbed.update(item.scrubbed)
        self.answers += attempt.answers()
        self.held += attempt.held

    def hold(self, items: Iterable[Item]) -> None:
        """Let records wait on: nothing of them is stored."""
        self.held += items
