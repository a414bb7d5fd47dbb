"""The queue: bounded, and served in turn, a tenant after the other and in a shared place a member after the other.

Whoever has little waits for one turn of each, never for the whole of somebody's line (P25, P27). What differs between
users is a policy: the bounds, the weight of an entry, the entries that go last, the back-off of those put back.

An owner uses it under a lock of its own, or from one event loop. Threads use the methods at the end. These take the
lock of the queue.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import chain
from math import inf
from typing import Generic, TypeVar

from service.fairness.bounds import FairBounds
from service.fairness.held import Hold
from service.fairness.turns import Company, fair_shares, member_of, place_of

T = TypeVar("T")

Last = Callable[[T], bool]


class _Line(Generic[T]):
    """The entries of one tenant in order of arrival; of a shared place its members in turn."""

    __slots__ = ("_last", "_members")

    def __init__(self, last: Last[T] | None) -> None:
        self._members: dict[str, deque[T]] = {}  # in the order of their next turns
        self._last = last

    def __bool__(self) -> bool:
        return bool(self._members)

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(self._members.values())

    def add(self, name: str, entry: T) -> None:
        """Add an entry behind the others of its member, but before the last ones unless it is one itself."""
        member, last = member_of(name), self._last
        entries = self._members.get(member)
        if entries is None:
            self._members[member] = deque((entry,))
        elif last is None or last(entry):
            entries.append(entry)
        else:
            entries.insert(sum(not last(other) for other in entries), entry)

    @property
    def all_last(self) -> bool:
        """Whether it has nothing but last ones."""
        return self._last is not None and all(self._last(entries[0]) for entries in self._members.values())

    def take(self) -> T:
        """Take the first entry of the next member, and make it the last in turn. There must be one."""
        members, last = self._members, self._last
        member = next(iter(members))
        if last is not None:
            member = next((name for name, entries in members.items() if not last(entries[0])), member)
        entries = members[member]
        entry = entries.popleft()
        if not entries:
            del members[member]
        elif len(members) > 1:
            members[member] = members.pop(member)
        return entry

    def drop(self, unwanted: Callable[[T], bool]) -> list[T]:
        """Take out unwanted entries. The turns stay as they are."""
        dropped: list[T] = []
        for member, entries in list(self._members.items()):
            dropped += filter(unwanted, entries)
            if kept := deque(entry for entry in entries if not unwanted(entry)):
                self._members[member] = kept
            else:
                del self._members[member]
        return dropped


class FairQueue(Generic[T]):
    """Waiting entries, handed out in turn: one by one, or in batches.

    `tenant` names the tenant or member of an entry. `places` bounds their number and `weights` the sum of their
    `weight`. `names` and `per_name` bound the entries for one name. They count until they are taken, or with
    `until_done` until `done`.

    `late`: whether an entry is given up, at a moment of the monotonic clock. `last` entries go behind all others.
    Threads have at most `at_once` entries of a tenant. `hold` has the back-off of entries put back. While several
    tenants wait, a batch weighs `shared` at most, and half of it while others are only about: the next one waits for
    its end.
    """

    def __init__(
        self,
        tenant: Callable[[T], str],
        *,
        places: FairBounds | None = None,
        weight: Callable[[T], int] = lambda _: 1,
        weights: FairBounds | None = None,
        names: Callable[[T], Iterable[Hashable]] = lambda _: (),
        per_name: float = inf,
        until_done: bool = False,
        late: Callable[[T, float], bool] = lambda _, __: False,
        last: Last[T] | None = None,
        at_once: float = inf,
        hold: Hold[T] | None = None,
        shared: float = inf,
    ) -> None:
        self._tenant = tenant
        self.places = FairBounds() if places is None else places
        self._weight = weight
        self.weights = weights
        self._names = names
        self._per_name = per_name
        self._of_name: dict[Hashable, int] = {}
        self._until_done = until_done
        self._late = late
        self._last = last
        self._at_once = at_once
        self._hold = hold
        self._shared = shared
        self._company = Company()
        self._lines: dict[str, _Line[T]] = {}  # by tenant or place, in the order of their next turns
        self._held: deque[T] = deque()
        self._fresh = 0
        self._running: Counter[str] = Counter()
        self._aside = 0
        self._again: deque[T] = deque()
        self._open = True
        self.changed = threading.Condition()
        """The lock of the queue, for threads."""

    def __len__(self) -> int:
        return self._fresh + len(self._held)

    def admit(self, entry: T) -> bool:
        """Queue a new entry; False when the queue, or the share of its tenant, member or names, is full."""
        name, weights = self._tenant(entry), self.weights
        if self.places.full(name) or (weights is not None and weights.full(name, self._weight(entry))):
            return False
        if self._per_name < inf and any(self._of_name.get(one, 0) >= self._per_name for one in self._names(entry)):
            return False
        place = place_of(name)
        line = self._lines.get(place)
        if line is None:
            line = self._lines[place] = _Line(self._last)
        line.add(name, entry)
        self._fresh += 1
        self._count_in(name, entry)
        if self._shared < inf:
            self._company.note(place)
        return True

    def _count_in(self, name: str, entry: T) -> None:
        self.places.add(name)
        if self.weights is not None:
            self.weights.add(name, self._weight(entry))
        if self._per_name < inf:
            for one in self._names(entry):
                self._of_name[one] = self._of_name.get(one, 0) + 1

    def _count_out(self, entries: Iterable[T]) -> None:
        counts: dict[str, int] = {}
        sums: dict[str, int] = {}
        for entry in entries:
            name = self._tenant(entry)
            counts[name] = counts.get(name, 0) + 1
            if self.weights is not None:
                sums[name] = sums.get(name, 0) + self._weight(entry)
            if self._per_name < inf:
                self._forget_names(entry)
        for name, count in counts.items():
            self.places.add(name, -count)
            if self.weights is not None:
                self.weights.add(name, -sums[name])

    def _count_out_one(self, entry: T) -> None:
        name = self._tenant(entry)
        self.places.add(name, -1)
        if self.weights is not None:
            self.weights.add(name, -self._weight(entry))
        if self._per_name < inf:
            self._forget_names(entry)

    def _forget_names(self, entry: T) -> None:
        of_name = self._of_name
        for one in self._names(entry):
            if of_name[one] > 1:
                of_name[one] -= 1
            else:
                del of_name[one]

    def done(self, entries: Iterable[T]) -> None:
        """Count out entries that count until then."""
        self._count_out(entries)

    def put_back(self, entries: Iterable[tuple[T, Iterable[str]]]) -> None:
        """Let entries of one batch wait again behind the names they found held, and lengthen their back-off.

        They stand before those left behind by the batch: whoever came first stays first.
        """
        assert self._hold is not None, "nothing was held in a queue that holds nothing"
        listed, now = list(entries), time.monotonic()
        self._held.extendleft(entry for entry, _ in reversed(listed))
        for entry, blockers in listed:
            if not self._until_done:
                self._count_in(self._tenant(entry), entry)
            self._hold.lengthen(entry, blockers, now)

    def take(self, size: int, most: float = inf) -> tuple[list[T], list[T]]:
        """Choose the next batch: (entries to run, those given up). An entry that makes it weigh `most` ends it.

        Entries put back come first but fill at most half of it. Of both kinds tenants get equal parts of number and
        weight, and at least one entry each, as long as they have enough to fill them.
        """
        now = time.monotonic()
        batch: list[T] = []
        late: list[T] = []
        if self._hold is not None:
            self._hold.begin(now)
        taken = self._take_held(size // 2, most / 2, now, batch, late) if self._held else 0.0
        lines, most = self._lines, min(most, self._most_shared())
        while lines and len(batch) < size and taken < most:
            turn = max(1, (size - len(batch)) // len(lines))
            part = (most - taken) / len(lines) if most < inf else inf
            for place in list(lines):
                if len(batch) >= size or taken >= most:
                    break  # Who is left now comes first in the next batch.
                taken = self._take_turn(place, min(turn, size - len(batch)), taken, part, now, batch, late)
        if not self._until_done:
            self._count_out(batch)
            self._count_out(late)
        return batch, late

    def _most_shared(self) -> float:
        """The weight of a batch for the sake of others."""
        if self._shared == inf or len(self._lines) > 1:
            return self._shared
        return self._shared // 2 if self._company.several else inf

    def _take_held(self, size: int, most: float, now: float, batch: list[T], late: list[T]) -> float:
        """Move entries put back to the batch, the oldest first. Those that stay may hold up later ones."""
        hold, tenant, taken = self._hold, self._tenant, 0.0
        assert hold is not None
        left = _shares_of(map(tenant, self._held), size)
        part = most / len({place_of(name) for name in left})
        weighed: dict[str, float] = {}
        stay: deque[T] = deque()
        for entry in self._held:
            if self._late(entry, now):
                late.append(entry)
                continue
            name = tenant(entry)
            place = place_of(name)
            if not left[name] or taken >= most or weighed.get(place, 0.0) >= part or not hold.lets(entry, now):
                stay.append(entry)
                hold.stays(entry)
                continue
            weight = self._weight(entry)
            left[name] -= 1
            taken += weight
            weighed[place] = weighed.get(place, 0.0) + weight
            batch.append(entry)
        self._held = stay
        return taken

    def _take_turn(
        self, place: str, turn: int, taken: float, part: float, now: float, batch: list[T], late: list[T]
    ) -> float:
        """Give a tenant its turn of so many entries and so much weight. It is the last one afterwards."""
        line, end, hold = self._lines.pop(place), taken + part, self._hold
        left = turn
        while left and line and (left == turn or taken < end):
            entry = line.take()
            left -= 1
            self._fresh -= 1
            if self._late(entry, now):
                late.append(entry)
            elif hold is None or hold.lets(entry, now):
                batch.append(entry)
                taken += self._weight(entry)
            else:
                self._held.append(entry)
                hold.stays(entry)
        if line:
            self._lines[place] = line
        return taken

    def pop(self, may: Callable[[str], bool] | None = None) -> T | None:
        """Take the next entry of the first tenant in turn that may. None without one. Late ones are left out."""
        for place in self._in_turn():
            if may is not None and not may(place):
                continue
            line = self._lines.pop(place)
            while line:
                entry = line.take()
                self._fresh -= 1
                self._count_out_one(entry)
                if not self._late(entry, 0.0):
                    if line:
                        self._lines[place] = line
                    return entry
        return None

    def _in_turn(self) -> Iterable[str]:
        if self._last is None:
            return list(self._lines)
        return sorted(self._lines, key=lambda place: self._lines[place].all_last)

    def waits(self, place: str) -> bool:
        """Whether a tenant, or a shared place, has new entries."""
        return place in self._lines

    def expire(self) -> list[T]:
        """Take out late entries, without choosing a batch."""
        now = time.monotonic()
        late = [entry for entry in self._held if self._late(entry, now)]
        self._held = deque(entry for entry in self._held if not self._late(entry, now))
        late += self._drop(lambda entry: self._late(entry, now))
        if not self._until_done:
            self._count_out(late)
        return late

    def remove(self, entry: T) -> bool:
        """Take out a new entry. False when it was taken already."""
        dropped = self._drop(lambda other: other is entry)
        self._count_out(dropped)
        return bool(dropped)

    def _drop(self, unwanted: Callable[[T], bool]) -> list[T]:
        dropped: list[T] = []
        for place, line in list(self._lines.items()):
            dropped += line.drop(unwanted)
            if not line:
                del self._lines[place]
        self._fresh -= len(dropped)
        return dropped

    def next_due(self) -> float | None:
        """Seconds until there is something to do; None when nothing waits."""
        if self._lines:
            return 0.0
        if self._hold is None:
            return None
        if not self._held:
            self._hold.forget()
            return None
        return self._hold.next_due(self._held, time.monotonic())

    def drain(self) -> list[T]:
        """Take everything out."""
        left = [*self._held, *chain.from_iterable(self._lines.values())]
        self._held.clear()
        self._lines.clear()
        self._fresh = 0
        self._count_out(left)
        return left

    # -- any thread --------------------------------------------------------------------------------------------

    def put(self, entry: T) -> bool:
        """Queue an entry and wake a thread; False as `admit`, and after `close`."""
        with self.changed:
            if not self._open or not self.admit(entry):
                return False
            self.changed.notify()
            return True

    def get(self, idle: Callable[[], object] | None = None, after: float = inf) -> T | None:
        """Wait for the next entry; None when it is closed and has nothing left for this thread.

        With `at_once`, `finish` gives its tenant the next turn. `idle` is called once when nothing has come for so
        many seconds, before the wait goes on.
        """
        patience = None if idle is None else after
        with self.changed:
            while True:
                if self._again:
                    return self._again.popleft()
                entry = self.pop(None if self._at_once == inf else self._may_run)
                if entry is not None:
                    if self._at_once < inf:
                        self._running[place_of(self._tenant(entry))] += 1
                    return entry
                if not self._open and not len(self) and not self._aside:
                    return None
                if not self.changed.wait(patience) and idle is not None:
                    idle()
                    patience = None

    def _may_run(self, place: str) -> bool:
        return self._running[place] < self._at_once

    def finish(self, entry: T) -> None:
        """End the turn of an entry."""
        with self.changed:
            place = place_of(self._tenant(entry))
            self._running[place] -= 1
            if not self._running[place]:
                del self._running[place]
            self.changed.notify_all()

    def set_aside(self) -> None:
        """Leave an entry to somebody who makes it ready. Its tenant keeps its turn meanwhile."""
        with self.changed:
            self._aside += 1

    def again(self, entry: T) -> None:
        """Have an entry taken again after it was set aside, before all others: it has had its turn."""
        with self.changed:
            self._aside -= 1
            self._again.append(entry)
            self.changed.notify()

    def close(self, *, drop: bool = False) -> None:
        """Take nothing more in, and let the threads end: once the queue is empty, or with `drop` at once."""
        with self.changed:
            self._open = False
            if drop:
                self.drain()
            self.changed.notify_all()


def _shares_of(names: Iterable[str], size: int) -> dict[str, int]:
    """Share a number of places among tenants, and the part of a shared place among its members."""
    counts = Counter(names)
    of_place: dict[str, list[tuple[str, int]]] = {}
    for name, count in counts.items():
        of_place.setdefault(place_of(name), []).append((name, count))
    shares: dict[str, int] = {}
    parts = fair_shares(((place, sum(count for _, count in each)) for place, each in of_place.items()), size)
    for place, each in of_place.items():
        shares |= fair_shares(each, parts[place])
    return shares
