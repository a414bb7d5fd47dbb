"""The back-off of entries put back into a queue: by the names they found held, or by a time of their own.

A back-off doubles from 1 to 32 ms, with jitter.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

FIRST_BACKOFF = 0.001
LAST_BACKOFF = 0.032
SOON = 0.0005
"""Seconds after which a queue is looked at again at the earliest."""

T_contra = TypeVar("T_contra", contravariant=True)


class Hold(Protocol[T_contra]):
    """What keeps entries from running."""

    def begin(self, now: float) -> None:
        """Begin to choose a batch."""

    def lets(self, entry: T_contra, now: float) -> bool:
        """Whether an entry may run in this batch."""

    def stays(self, entry: T_contra) -> None:
        """Note an entry left behind by this batch."""

    def lengthen(self, entry: T_contra, blockers: Iterable[str], now: float) -> None:
        """Let an entry wait behind the names it found held."""

    def next_due(self, held: Iterable[T_contra], now: float) -> float:
        """Seconds until one of the entries is worth another look."""

    def forget(self) -> None:
        """Nobody waits any more."""


class Named(Protocol):
    """What waits for names."""

    @property
    def needs(self) -> frozenset[str]:
        """Every name that it cannot run without, as the rounds report them."""

    @property
    def keeps(self) -> frozenset[str]:
        """The names whose order it keeps while it waits: later ones that need them wait behind it."""


N = TypeVar("N", bound=Named)


@dataclass(slots=True)
class _Backoff:
    due: float
    delay: float


class HeldByName(Generic[N]):
    """Names have a back-off each. An entry waits until its names are due and no older one waits for them."""

    def __init__(self) -> None:
        self._backoffs: dict[str, _Backoff] = {}
        self._held_up: set[str] = set()

    def __len__(self) -> int:
        return len(self._backoffs)

    def begin(self, now: float) -> None:
        """Begin with the names not yet due."""
        self._held_up = {name for name, backoff in self._backoffs.items() if backoff.due > now}

    def lets(self, entry: N, _: float) -> bool:
        """Whether none of the names of an entry is held up."""
        return not self._held_up or self._held_up.isdisjoint(entry.needs)

    def stays(self, entry: N) -> None:
        """Hold up the names whose order an entry keeps."""
        self._held_up |= entry.keeps

    def lengthen(self, _: N, blockers: Iterable[str], now: float) -> None:
        """Lengthen the back-off of names, once in a round."""
        for name in blockers:
            backoff = self._backoffs.get(name)
            if backoff is not None and backoff.due > now:
                continue  # Another entry of the same round has lengthened it already.
            delay = _longer(backoff.delay if backoff else 0.0)
            self._backoffs[name] = _Backoff(now + _jittered(delay), delay)

    def got(self, entry: N) -> None:
        """Forget the back-offs of the names a round got for this entry."""
        if self._backoffs:
            for name in entry.needs:
                self._backoffs.pop(name, None)

    def next_due(self, _: Iterable[N], now: float) -> float:
        """Seconds until the first name is due."""
        due = [backoff.due for backoff in self._backoffs.values() if backoff.due > now]
        return max(SOON, min(due) - now) if due else SOON

    def forget(self) -> None:
        """Forget all back-offs: keys are unique, and would stay for ever."""
        self._backoffs.clear()


class Delayed(Protocol):
    """What has its own back-off, kept here: until when it was put back, and for how long."""

    due: float
    delay: float


D = TypeVar("D", bound=Delayed)


class HeldByTime(Generic[D]):
    """Each entry waits a little longer every time it is put back."""

    def begin(self, now: float) -> None:
        """Nothing is known beside the entries."""

    def lets(self, entry: D, now: float) -> bool:
        """Whether an entry is due."""
        return entry.due <= now

    def stays(self, entry: D) -> None:
        """It holds nobody up."""

    def lengthen(self, entry: D, _: Iterable[str], now: float) -> None:
        """Lengthen the back-off of an entry."""
        entry.delay = _longer(entry.delay)
        entry.due = now + _jittered(entry.delay)

    def next_due(self, held: Iterable[D], now: float) -> float:
        """Seconds until the first entry is due."""
        return max(SOON, min(entry.due for entry in held) - now)

    def forget(self) -> None:
        """Nothing is known beside the entries."""


def _longer(delay: float) -> float:
    return min(LAST_BACKOFF, 2 * delay) or FIRST_BACKOFF


def _jittered(delay: float) -> float:
    return delay * random.uniform(0.5, 1.0)  # noqa: S311 - jitter
