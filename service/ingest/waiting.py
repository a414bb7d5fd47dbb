"""Records that wait for their commit: bounded in number and bytes, and fair between projects.

Bytes are what a record takes in memory, by estimate, and stand for the time that it costs as well: a project has its
share of them, in the queue and in each flush, however its records are made.

Belongs to one event loop.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Iterable

from service.ingest.items import Item

CAPACITY = 8192
CAPACITY_BYTES = 64 * 1024 * 1024
BATCH_BYTES = 4 * 1024 * 1024
SHARED_BYTES = 1024 * 1024
"""Bytes of a flush while several projects wait: what one of them sends does not hold up the others for long."""

FIRST_BACKOFF = 0.001
LAST_BACKOFF = 0.032


class Waiting:
    """One queue per project, emptied in turn, and the records put back because something they need was held.

    A record that was taken counts toward the bounds until it is `done`, so that they hold for everything in memory.
    """

    def __init__(self, capacity: int = CAPACITY, capacity_bytes: int = CAPACITY_BYTES) -> None:
        self._capacity = capacity
        self._capacity_bytes = capacity_bytes
        self._fresh: dict[str, deque[Item]] = {}
        self._held: list[Item] = []
        self._usage: dict[str, list[int]] = {}  # project -> [records, bytes]
        self._queued = 0
        self._count = 0
        self._bytes = 0

    @property
    def count(self) -> int:
        """Records that were taken in and are not done."""
        return self._count

    @property
    def bytes(self) -> int:
        """Memory that they take, by estimate."""
        return self._bytes

    @property
    def fresh(self) -> int:
        """Records that have not been looked at."""
        return self._queued

    def admit(self, item: Item) -> bool:
        """Take in a new record; False when the queue, or the project's share of it, is full.

        A project may take as much as it leaves free: alone it fills half of the queue, and however many projects flood
        it, one that sends little finds room.
        """
        project_id = item.sender.project_id
        count, size = self._usage.get(project_id, (0, 0))
        if count + 1 > self._capacity - self._count or size + item.size > self._capacity_bytes - self._bytes:
            return False
        self._fresh.setdefault(project_id, deque()).append(item)
        self._queued += 1
        usage = self._usage.setdefault(project_id, [0, 0])
        usage[0] += 1
        usage[1] += item.size
        self._count += 1
        self._bytes += item.size
        return True

    def done(self, items: Iterable[Item]) -> None:
        """Let go of records that have their answer."""
        for item in items:
            project_id = item.sender.project_id
            usage = self._usage[project_id]
            usage[0] -= 1
            usage[1] -= item.size
            if not usage[0]:
                del self._usage[project_id]
            self._count -= 1
            self._bytes -= item.size

    def put_back(self, items: Iterable[Item]) -> None:
        """Keep records whose case, key or gate was held; each waits a little longer every time (1 to 32 ms)."""
        now = time.monotonic()
        for item in items:
            item.delay = min(LAST_BACKOFF, 2 * item.delay) or FIRST_BACKOFF
            item.due = now + item.delay * random.uniform(0.5, 1.0)  # noqa: S311 - jitter
            self._held.append(item)

    def take(self, size: int, max_bytes: int = BATCH_BYTES) -> tuple[list[Item], list[Item]]:
        """Choose the next batch: (runnable, overdue). Held ones that are due fill at most half of it.

        The batch ends with the record that reaches `max_bytes`: what one transaction writes is bounded too. While
        several projects wait it ends at SHARED_BYTES, of which each has an equal part, and at least one record.
        """
        now = time.monotonic()
        batch: list[Item] = []
        overdue: list[Item] = []
        taken = 0
        if self._held:
            stay: list[Item] = []
            due: list[Item] = []
            for item in self._held:
                if item.deadline <= now:
                    overdue.append(item)
                else:
                    (due if item.due <= now else stay).append(item)
            for item in _in_turns(due):
                if len(batch) < size // 2 and taken < max_bytes // 2:
                    batch.append(item)
                    taken += item.size
                else:
                    stay.append(item)
            self._held = stay
        if len(self._fresh) > 1:
            max_bytes = min(max_bytes, SHARED_BYTES)
        while self._fresh and len(batch) < size and taken < max_bytes:
            # One turn for every project; who has been served goes to the end.
            turn = max(1, (size - len(batch)) // len(self._fresh))
            part = (max_bytes - taken) // len(self._fresh)
            for project_id in list(self._fresh):
                if len(batch) >= size or taken >= max_bytes:
                    break  # Who is left now comes first in the next batch.
                queue = self._fresh.pop(project_id)
                left, end = turn, taken + part
                while queue and left and len(batch) < size and (left == turn or taken < end):
                    item = queue.popleft()
                    left -= 1
                    self._queued -= 1
                    if item.deadline <= now:
                        overdue.append(item)
                    else:
                        batch.append(item)
                        taken += item.size
                if queue:
                    self._fresh[project_id] = queue
        return batch, overdue

    def expire(self) -> list[Item]:
        """Take out what is overdue, without choosing a batch."""
        now = time.monotonic()
        overdue = [item for item in self._held if item.deadline <= now]
        self._held = [item for item in self._held if item.deadline > now]
        for project_id, queue in list(self._fresh.items()):
            kept = deque(item for item in queue if item.deadline > now)
            overdue += [item for item in queue if item.deadline <= now]
            self._queued -= len(queue) - len(kept)
            self._fresh[project_id] = kept
            if not kept:
                del self._fresh[project_id]
        return overdue

    def next_due(self) -> float | None:
        """Seconds until there is something to do; None when nothing waits."""
        if self._fresh:
            return 0.0
        if not self._held:
            return None
        return max(0.0005, min(item.due for item in self._held) - time.monotonic())


def _in_turns(items: list[Item]) -> list[Item]:
    """Order records so that each project has its turn: first the first of each, then the second of each."""
    seen: dict[str, int] = {}
    places: list[tuple[int, int]] = []
    for item in items:
        project_id = item.sender.project_id
        place = seen[project_id] = seen.get(project_id, 0) + 1
        places.append((place, len(places)))
    return items if len(seen) < 2 else [items[index] for _, index in sorted(places)]  # noqa: PLR2004 - one has all turns
