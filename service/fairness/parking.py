"""Commands that wait: a bounded queue that serves tenants in turn, and a short back-off per name that was found held.

The commands of one tenant keep their order of arrival. The members of a shared place have the share of one tenant, in
turn. Not thread-safe; its owner holds a lock.
"""

from __future__ import annotations

import random
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Generic, Protocol, TypeVar

from service.fairness.turns import PlaceLine, fair_shares, place_of

FIRST_BACKOFF = 0.001
LAST_BACKOFF = 0.032
BATCH_BYTES = 256 * 1024
"""Bytes of commands after which a batch ends: it takes as long for all of its commands as its heaviest ones need."""


class Parked(Protocol):
    """What waits: of whom, for which streams, how heavy it is, and what it cannot run without."""

    @property
    def tenant(self) -> str:
        """Whose share it takes."""

    @property
    def writes(self) -> Iterable[tuple[str, str]]:
        """The streams that it writes."""

    @property
    def weight(self) -> int:
        """Its bytes."""

    @property
    def overdue(self) -> bool:
        """Whether it is given up."""

    @property
    def needs(self) -> frozenset[str]:
        """Every name that it cannot run without, as the rounds report them."""

    @property
    def keeps(self) -> frozenset[str]:
        """The names whose order it keeps while it waits: later ones that need them wait behind it."""


E = TypeVar("E", bound=Parked)

MEMBERS_PART = 8
"""One member fills a shared place to this part at most: one divided by it."""


@dataclass(slots=True)
class _Backoff:
    due: float
    delay: float


class Parking(Generic[E]):
    """Fresh commands and parked ones, handed out in batches that keep the order per name.

    At most `capacity` wait, `per_tenant` of one tenant and `per_stream` for one stream. A member of a shared place has
    at most a part of it.
    """

    def __init__(self, *, capacity: int, per_tenant: int, per_stream: int) -> None:
        self._fresh: dict[str, PlaceLine[E]] = {}  # by place, in the order of their next turns
        self._fresh_count = 0
        self._parked: deque[E] = deque()
        self._backoffs: dict[str, _Backoff] = {}
        self._waiting: dict[tuple[str, str], int] = {}
        self._of_tenant: dict[str, int] = {}
        self._capacity = capacity
        self._per_tenant = per_tenant
        self._per_stream = per_stream
        self._room = BATCH_BYTES  # that is left in the batch that is being chosen

    def __len__(self) -> int:
        return self._fresh_count + len(self._parked)

    def admit(self, entry: E) -> bool:
        """Queue a new command; False when the queue, its tenant's share, or that of one of its streams is full."""
        tenant, place = entry.tenant, place_of(entry.tenant)
        if (
            len(self) >= self._capacity
            or self._of_tenant.get(place, 0) >= self._per_tenant
            or (place != tenant and self._of_tenant.get(tenant, 0) >= max(1, self._per_tenant // MEMBERS_PART))
            or any(self._waiting.get(name, 0) >= self._per_stream for name in entry.writes)
        ):
            return False
        line = self._fresh.get(place)
        if line is None:
            line = self._fresh[place] = PlaceLine()
        line.add(tenant, entry)
        self._fresh_count += 1
        self._count_in(entry)
        return True

    def _count_in(self, entry: E) -> None:
        waiting = self._waiting
        for name in entry.writes:
            waiting[name] = waiting.get(name, 0) + 1
        for tenant in {entry.tenant, place_of(entry.tenant)}:
            self._of_tenant[tenant] = self._of_tenant.get(tenant, 0) + 1

    def _count_out(self, entries: Iterable[E]) -> None:
        waiting = self._waiting
        for entry in entries:
            for name in entry.writes:
                if waiting[name] > 1:
                    waiting[name] -= 1
                else:
                    del waiting[name]
            for tenant in {entry.tenant, place_of(entry.tenant)}:
                if self._of_tenant[tenant] > 1:
                    self._of_tenant[tenant] -= 1
                else:
                    del self._of_tenant[tenant]

    def put_back(self, held: Sequence[tuple[E, Iterable[str]]]) -> None:
        """Park commands of one batch that found names held, and lengthen the back-off of these (1 to 32 ms, jitter).

        They stand before those that were left behind when the batch was taken: whoever came first stays first.
        """
        self._parked.extendleft(entry for entry, _ in reversed(held))
        now = time.monotonic()
        for entry, blockers in held:
            self._count_in(entry)
            self._lengthen(blockers, now)

    def _lengthen(self, blockers: Iterable[str], now: float) -> None:
        for name in blockers:
            backoff = self._backoffs.get(name)
            if backoff is not None and backoff.due > now:
                continue  # Another command of the same round has lengthened it already.
            delay = min(LAST_BACKOFF, backoff.delay * 2) if backoff else FIRST_BACKOFF
            self._backoffs[name] = _Backoff(now + delay * random.uniform(0.5, 1.0), delay)  # noqa: S311 - jitter

    def got(self, entry: E) -> None:
        """Forget the back-offs of names that a round got for this command."""
        if self._backoffs:
            for name in entry.needs:
                self._backoffs.pop(name, None)

    def take(self, size: int) -> tuple[list[E], list[E]]:
        """Choose the next batch: (runnable, overdue).

        Parked commands come first but fill at most half a batch; one that needs a name which is not due, or which
        an older one still waits for, stays, so that the order per name is kept. Of both kinds tenants get equal
        shares as long as they have enough to fill them. The command that reaches BATCH_BYTES ends the batch.
        """
        now = time.monotonic()
        self._room = BATCH_BYTES
        held_up = {name for name, backoff in self._backoffs.items() if backoff.due > now}
        batch: list[E] = []
        overdue: list[E] = []
        if self._parked:
            self._take_parked(size // 2, held_up, batch, overdue)
        while self._fresh and len(batch) < size and self._room > 0:
            turn = max(1, (size - len(batch)) // len(self._fresh))
            for place in list(self._fresh):
                if len(batch) >= size or self._room <= 0:
                    break
                self._take_fresh(place, min(turn, size - len(batch)), held_up, batch, overdue)
        self._count_out(batch)
        self._count_out(overdue)
        return batch, overdue

    def _take_parked(self, size: int, held_up: set[str], batch: list[E], overdue: list[E]) -> None:
        """Move at most `size` parked commands to the batch, the oldest first; the names of the others are held up."""
        left = fair_shares(Counter(place_of(entry.tenant) for entry in self._parked).items(), size)
        stay: deque[E] = deque()
        for entry in self._parked:
            if entry.overdue:
                overdue.append(entry)
            elif not left[place_of(entry.tenant)] or self._room <= 0 or not held_up.isdisjoint(entry.needs):
                stay.append(entry)
                held_up |= entry.keeps
            else:
                left[place_of(entry.tenant)] -= 1
                self._room -= entry.weight
                batch.append(entry)
        self._parked = stay

    def _take_fresh(self, place: str, turn: int, held_up: set[str], batch: list[E], overdue: list[E]) -> None:
        """Give a tenant its turn of so many commands; what is held up is parked. It is the last one afterwards."""
        line = self._fresh.pop(place)
        for _ in range(min(turn, len(line))):
            if self._room <= 0:
                break
            entry = line.take()
            self._fresh_count -= 1
            if entry.overdue:
                overdue.append(entry)
            elif held_up and not held_up.isdisjoint(entry.needs):
                self._parked.append(entry)
                held_up |= entry.keeps
            else:
                self._room -= entry.weight
                batch.append(entry)
        if line:
            self._fresh[place] = line

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

    def drain(self) -> list[E]:
        """Take everything out."""
        left = [*self._parked, *chain.from_iterable(self._fresh.values())]
        self._parked.clear()
        self._fresh.clear()
        self._fresh_count = 0
        self._waiting.clear()
        self._of_tenant.clear()
        return left
