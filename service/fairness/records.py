"""Records that wait for their commit: bounded in number and bytes, and fair between accounts and their projects.

Bytes are what a record takes in memory, by estimate, and stand for the time that it costs as well: an account has its
share of them, in the queue and in each flush, however its records are made and however many projects it has.

Belongs to one event loop.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from service.fairness.turns import Company, Lines

CAPACITY = 8192
CAPACITY_BYTES = 64 * 1024 * 1024
BATCH_BYTES = 4 * 1024 * 1024
SHARED_BYTES = 1024 * 1024
"""Bytes of a flush while several accounts wait: what one of them sends does not hold up the others for long. Half of
it, while only one waits but others are about: who comes next waits for the end of the flush that has begun."""

FIRST_BACKOFF = 0.001
LAST_BACKOFF = 0.032


class RecordSender(Protocol):
    """Who sends a record: the account whose share it takes, and the project that it belongs to."""

    @property
    def tenant(self) -> str:
        """The account, or what stands in for it."""

    @property
    def project_id(self) -> str:
        """The project."""


class Record(Protocol):
    """What waits. `due` and `delay` are kept here: until when it was put back, and for how long."""

    due: float
    delay: float

    @property
    def sender(self) -> RecordSender:
        """Who sent it."""

    @property
    def size(self) -> int:
        """Bytes that it takes in memory, by estimate."""

    @property
    def deadline(self) -> float:
        """When it is given up, on the monotonic clock."""


R = TypeVar("R", bound=Record)


class _Use:
    """What somebody takes of the bounds: records and their bytes."""

    __slots__ = ("count", "size")

    def __init__(self) -> None:
        self.count = self.size = 0


class Waiting(Generic[R]):
    """One line per account, emptied in turn, and the records put back because something they need was held.

    A record that was taken counts toward the bounds until it is `done`, so that they hold for everything in memory.
    """

    def __init__(self, capacity: int = CAPACITY, capacity_bytes: int = CAPACITY_BYTES) -> None:
        self._capacity = capacity
        self._capacity_bytes = capacity_bytes
        self._fresh: dict[str, Lines[R]] = {}  # of each account its projects, in turn
        self._held: list[R] = []
        self._accounts: dict[str, _Use] = {}
        self._projects: dict[str, _Use] = {}
        self._queued = 0
        self._count = 0
        self._bytes = 0
        self._company = Company()

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

    def admit(self, item: R) -> bool:
        """Take in a new record; False when the queue, or the share of its account or project, is full.

        An account may take as much as it leaves free: alone it fills half of the queue, and however many accounts flood
        it, one that sends little finds room. So does a project beside another one of its account that floods, for each
        takes three quarters of what its account may.
        """
        tenant, project_id = item.sender.tenant, item.sender.project_id
        free, free_bytes = self._capacity - self._count, self._capacity_bytes - self._bytes
        size = item.size
        account, project = self._accounts.get(tenant) or _Use(), self._projects.get(project_id) or _Use()
        if account.count + 1 > free or account.size + size > free_bytes:
            return False
        if project.count and (4 * (project.count + 1) > 3 * free or 4 * (project.size + size) > 3 * free_bytes):
            return False
        lines = self._fresh.get(tenant)
        if lines is None:
            lines = self._fresh[tenant] = Lines()
        lines.add(project_id, item)
        self._company.note(tenant)
        self._queued += 1
        self._accounts[tenant], self._projects[project_id] = account, project
        account.count += 1
        account.size += size
        project.count += 1
        project.size += size
        self._count += 1
        self._bytes += size
        return True

    def done(self, items: Iterable[R]) -> None:
        """Let go of records that have their answer."""
        for item in items:
            size, sender = item.size, item.sender
            for name, users in ((sender.tenant, self._accounts), (sender.project_id, self._projects)):
                use = users[name]
                use.count -= 1
                use.size -= size
                if not use.count:
                    del users[name]
            self._count -= 1
            self._bytes -= size

    def put_back(self, items: Iterable[R]) -> None:
        """Keep records whose case, key or gate was held; each waits a little longer every time (1 to 32 ms)."""
        now = time.monotonic()
        for item in items:
            item.delay = min(LAST_BACKOFF, 2 * item.delay) or FIRST_BACKOFF
            item.due = now + item.delay * random.uniform(0.5, 1.0)  # noqa: S311 - jitter
            self._held.append(item)

    def take(self, size: int, max_bytes: int = BATCH_BYTES) -> tuple[list[R], list[R]]:
        """Choose the next batch: (runnable, overdue). Held ones that are due fill at most half of it.

        The batch ends with the record that reaches `max_bytes`: what one transaction writes is bounded too. While
        several accounts wait it ends at SHARED_BYTES, of which each has an equal part, and at least one record; at half
        of that when others are only about.
        """
        now = time.monotonic()
        batch: list[R] = []
        overdue: list[R] = []
        taken = 0
        if self._held:
            stay: list[R] = []
            due: list[R] = []
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
        max_bytes = min(max_bytes, self._shared())
        while self._fresh and len(batch) < size and taken < max_bytes:
            # One turn for every account; who has been served goes to the end.
            turn = max(1, (size - len(batch)) // len(self._fresh))
            part = (max_bytes - taken) // len(self._fresh)
            for tenant in list(self._fresh):
                if len(batch) >= size or taken >= max_bytes:
                    break  # Who is left now comes first in the next batch.
                queue = self._fresh.pop(tenant)
                left, end = turn, taken + part
                while queue and left and len(batch) < size and (left == turn or taken < end):
                    item = queue.take()
                    left -= 1
                    self._queued -= 1
                    if item.deadline <= now:
                        overdue.append(item)
                    else:
                        batch.append(item)
                        taken += item.size
                if queue:
                    self._fresh[tenant] = queue
        return batch, overdue

    def _shared(self) -> int:
        """Bytes that a flush may have for the sake of others."""
        if len(self._fresh) > 1:
            return SHARED_BYTES
        return SHARED_BYTES // 2 if self._company.several else BATCH_BYTES

    def expire(self) -> list[R]:
        """Take out what is overdue, without choosing a batch."""
        now = time.monotonic()
        overdue = [item for item in self._held if item.deadline <= now]
        self._held = [item for item in self._held if item.deadline > now]
        for tenant, line in list(self._fresh.items()):
            late = line.drop(lambda item: item.deadline <= now)
            overdue += late
            self._queued -= len(late)
            if not line:
                del self._fresh[tenant]
        return overdue

    def next_due(self) -> float | None:
        """Seconds until there is something to do; None when nothing waits."""
        if self._fresh:
            return 0.0
        if not self._held:
            return None
        return max(0.0005, min(item.due for item in self._held) - time.monotonic())


def _in_turns(items: list[R]) -> list[R]:
    """Order records so that each account has its turn, and each of its projects: first the first of each, and so on."""
    by_project = _numbered(items, lambda item: item.sender.project_id)
    return _numbered(by_project, lambda item: item.sender.tenant)


def _numbered(items: list[R], whose: Callable[[R], str]) -> list[R]:
    seen: dict[str, int] = {}
    places: list[tuple[int, int]] = []
    for item in items:
        owner = whose(item)
        place = seen[owner] = seen.get(owner, 0) + 1
        places.append((place, len(places)))
    return items if len(seen) < 2 else [items[index] for _, index in sorted(places)]  # noqa: PLR2004 - one has all turns
