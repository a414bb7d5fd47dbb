"""Commands that wait: a bounded queue in arrival order, and a short back-off per name that was found held.

Not thread-safe; its owner holds a lock.
"""

from __future__ import annotations

import random
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from service.eventstore import names
from service.eventstore.cache import StreamName
from service.eventstore.entry import Entry

FIRST_BACKOFF = 0.001
LAST_BACKOFF = 0.032


@dataclass(slots=True)
class _Backoff:
    due: float
    delay: float


class Parking:
    """Fresh commands and parked ones, handed out in batches that keep the order per name."""

    def __init__(self, *, capacity: int, per_stream: int) -> None:
        self._fresh: deque[Entry] = deque()
        self._parked: deque[Entry] = deque()
        self._backoffs: dict[str, _Backoff] = {}
        self._waiting: Counter[StreamName] = Counter()
        self._capacity = capacity
        self._per_stream = per_stream

    def __len__(self) -> int:
        return len(self._fresh) + len(self._parked)

    def admit(self, entry: Entry) -> bool:
        """Queue a new command; False when the queue, or the queue of one of its streams, is full."""
        if len(self) >= self._capacity or any(self._waiting[name] >= self._per_stream for name in entry.writes):
            return False
        self._fresh.append(entry)
        self._waiting.update(entry.writes)
        return True

    def put_back(self, held: Sequence[tuple[Entry, Iterable[str]]]) -> None:
        """Park commands of one batch that found names held, and lengthen the back-off of these (1 to 32 ms, jitter).

        They stand before those that were left behind when the batch was taken: whoever came first stays first.
        """
        self._parked.extendleft(entry for entry, _ in reversed(held))
        now = time.monotonic()
        for entry, blockers in held:
            self._waiting.update(entry.writes)
            self._lengthen(blockers, now)

    def _lengthen(self, blockers: Iterable[str], now: float) -> None:
        for name in blockers:
            backoff = self._backoffs.get(name)
            if backoff is not None and backoff.due > now:
                continue  # Another command of the same round has lengthened it already.
            delay = min(LAST_BACKOFF, backoff.delay * 2) if backoff else FIRST_BACKOFF
            self._backoffs[name] = _Backoff(now + delay * random.uniform(0.5, 1.0), delay)  # noqa: S311 - jitter

    def got(self, entry: Entry) -> None:
        """Forget the back-offs of names that a round got for this command."""
        if self._backoffs:
            for name in _needs(entry):
                self._backoffs.pop(name, None)

    def take(self, size: int) -> tuple[list[Entry], list[Entry]]:
        """Choose the next batch: (runnable, overdue).

        Parked commands come first but fill at most half a batch; one that needs a name which is not due, or which
        an older one still waits for, stays, so that the order per name is kept.
        """
        now = time.monotonic()
        held_up = {name for name, backoff in self._backoffs.items() if backoff.due > now}
        batch: list[Entry] = []
        overdue: list[Entry] = []
        stay: deque[Entry] = deque()
        for _ in range(len(self._parked)):
            entry = self._parked.popleft()
            needed = _needs(entry)
            if entry.overdue:
                overdue.append(entry)
            elif len(batch) >= size // 2 or not held_up.isdisjoint(needed):
                stay.append(entry)
                held_up |= _keeps(entry)
            else:
                batch.append(entry)
        self._parked = stay
        while self._fresh and len(batch) < size:
            entry = self._fresh.popleft()
            needed = _needs(entry) if held_up else frozenset()
            if entry.overdue:
                overdue.append(entry)
            elif held_up and not held_up.isdisjoint(needed):
                stay.append(entry)
                held_up |= _keeps(entry)
            else:
                batch.append(entry)
        for entry in (*batch, *overdue):
            self._waiting.subtract(entry.writes)
        if len(self._waiting) > 4 * self._capacity:
            self._waiting = +self._waiting
        return batch, overdue

    def next_due(self) -> float | None:
        """Seconds until parked commands are worth another look; None when there are none."""
        if self._fresh:
            return 0.0
        if not self._parked:
            self._backoffs.clear()
            return None
        now = time.monotonic()
        due = [backoff.due for backoff in self._backoffs.values() if backoff.due > now]
        return max(0.0005, min(due) - now) if due else 0.0005

    def drain(self) -> list[Entry]:
        """Take everything out."""
        left = [*self._parked, *self._fresh]
        self._parked.clear()
        self._fresh.clear()
        self._waiting.clear()
        return left


def _needs(entry: Entry) -> frozenset[str]:
    """Every name a command cannot run without, as the rounds report them."""
    return _keeps(entry).union(map(names.gate, entry.command.gates))


def _keeps(entry: Entry) -> frozenset[str]:
    """The names whose order a waiting command keeps: later ones that need them wait behind it.

    Gates are not among them. They are shared by all that happens in a project, and one stream that is held up must
    not hold up its project.
    """
    command = entry.command
    return frozenset(
        [
            entry.key_name,
            *("/".join(stream.name) for stream in (*command.streams, *command.reads)),
            *(names.new_stream(*stream.name) for stream in command.streams),
        ]
    )
