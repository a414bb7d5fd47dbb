"""What a pattern of a rule would have met, counted within a second however much a project has (R-CASE-12, G-053).

Where a case had no error before a window began, or none since, its counter tells how many are within it. The rows of
all others are counted together, newest first, a stretch of time after the other, each in a statement of its own: what
is counted when the time is over is exact from there on, and the answer says from where. Rows of a case are told apart
by their own fingerprints only where it may have those of others: one that nobody has acted on has its own alone.

A preview holds one connection, gives it up between its statements, and waits until its tenant's other one is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from service.eventstore.connect.facts import DAY
from service.eventstore.read.reader import END, PageEnd
from service.eventstore.store import EventStore
from service.sql import load_query

WINDOWS = (7, 30, 90)  # days
SECONDS = 0.7  # that a preview takes: a request has one for all of its reads
COMPARING = 0.4  # of them, at most, for the fingerprints of cases
LONGEST = 16 * DAY  # that a statement looks at
QUICK = 0.02  # a statement that took less may be followed by one that looks at twice as much
CASES = 5_000  # whose fingerprints a statement compares
MOST_CASES = 2_000  # whose rows are counted, those with the most errors
ROWS = 50_000  # that a statement counts by the index alone
ROWS_READ = 10_000  # that a statement tells apart by their fingerprints

_COMPARE = load_query("cases", "compare")
_COUNT = load_query("cases", "count_matching")
_KEPT_FROM = load_query("cases", "kept_from")


class PreviewWindow(NamedTuple):
    """How many errors of the last `days` match: all since `counted_from` (epoch seconds; None: not even the latest).

    They are no more than `at_most`; None: that is not known.
    """

    days: int
    events: int
    complete: bool
    counted_from: int | None
    at_most: int | None


class Preview(NamedTuple):
    """What a pattern would have met: cases, and errors by window.

    Cases that were opened before `compared_from` (epoch seconds) were not looked at; None: all were.
    """

    cases: int
    compared_from: int | None
    windows: list[PreviewWindow]


class _Found:
    """What the comparing has found: sums that counters tell, and the cases whose rows tell the rest.

    `own` are cases with errors of their own alone, each with the moment from which its rows are counted; `mixed` are
    those that may have others. Both with their number of errors.
    """

    def __init__(self, since: list[int]) -> None:
        self.since = since
        self.cases = 0
        self.compared_from: int | None = None
        self.events = [0] * len(since)
        self.most = [0] * len(since)
        self.own: dict[str, tuple[int, int]] = {}
        self.mixed: dict[str, int] = {}
        self.taken = False  # retention has taken rows that would have to be counted

    def add(self, case: Sequence[Any]) -> None:
        """Take in a case that matches."""
        case_id, _, own, merged_into, count, first, last, taken, merged_count = case
        self.cases += 1
        if own:
            for place, moment in enumerate(self.since):
                self.events[place] += count if first >= moment else 0
                self.most[place] += count if last >= moment else 0
            straddled = [moment for moment in self.since if first < moment <= last]
            if straddled:
                self.own[case_id] = (count, min(straddled))
                self.taken = self.taken or taken
            return
        self.mixed[case_id] = count
        self.taken = self.taken or taken
        if merged_into is not None:  # What came for it after that is among the errors of the other one.
            self.mixed.setdefault(merged_into, merged_count or 0)

    def narrow(self) -> bool:
        """Keep the cases with the most errors, as many as are counted by rows; returns whether others are left out."""
        sizes = {**self.mixed, **{case_id: count for case_id, (count, _) in self.own.items()}}
        kept = set(sorted(sizes, key=lambda case_id: -sizes[case_id])[:MOST_CASES])
        self.own = {case_id: one for case_id, one in self.own.items() if case_id in kept}
        self.mixed = {case_id: count for case_id, count in self.mixed.items() if case_id in kept}
        return len(kept) < len(sizes)


async def preview(store: EventStore, project_id: str, pattern: str) -> Preview:
    """Count what a pattern would have met. Raises ReadNotDone when too many previews of the tenant wait."""
    now = await store.now()
    async with store.long_read():
        deadline = asyncio.get_running_loop().time() + SECONDS
        found, like = _Found([now - days * DAY for days in WINDOWS]), _like(pattern)
        await _compare(store, project_id, like, found, deadline - SECONDS + COMPARING)
        of_mixed = sum(found.mixed.values())
        counted_from = await _count(store, project_id, like, found, now, deadline)
    windows = []
    for days, moment, events, most in zip(WINDOWS, found.since, found.events, found.most, strict=True):
        complete = counted_from is not None and counted_from <= moment
        at_most = events if complete else None if found.compared_from is not None else max(events, most + of_mixed)
        since = None if counted_from is None else max(counted_from, moment)
        windows.append(PreviewWindow(days, events, complete, since, at_most))
    return Preview(found.cases, found.compared_from, windows)


async def _compare(store: EventStore, project_id: str, like: str, found: _Found, deadline: float) -> None:
    """Compare fingerprints, the newest cases first, until all are compared or the time is over."""
    place = END
    try:
        while True:
            async with asyncio.timeout_at(deadline):
                rows = await store.fetch(
                    _COMPARE, project_id=project_id, like=like, at=place.at, id=place.id, most=CASES
                )
            for _, _, *case in rows:
                if case[1]:
                    found.add(case)
            if not rows or rows[0][0] < CASES:
                return
            place = PageEnd(rows[-1][1], rows[-1][2])
    except TimeoutError:
        found.compared_from = place.at


async def _count(store: EventStore, project_id: str, like: str, found: _Found, now: int, deadline: float) -> int | None:
    """Add what the rows tell, newest first; returns since when everything is counted, None where nothing is."""
    complete = not found.narrow() and found.compared_from is None
    bottom = found.since[-1] if found.mixed else min((since for _, since in found.own.values()), default=now + 1)
    edge, span = now + 1, DAY
    first, second, third = found.since
    running = asyncio.get_running_loop()
    try:
        while edge > bottom:
            low, began = max(bottom, edge - span), running.time()
            own = {case_id: since for case_id, (_, since) in found.own.items() if since < edge}
            async with asyncio.timeout_at(deadline):
                [[of_own, of_mixed, *events]] = await store.fetch_planned(
                    _COUNT,
                    project_id=project_id,
                    first=first,
                    second=second,
                    third=third,
                    own=list(own),
                    own_since=list(own.values()),
                    most=ROWS,
                    like=like,
                    mixed=list(found.mixed),
                    most_mixed=ROWS_READ,
                    low=low,
                    edge=edge,
                )
            if of_own == ROWS or of_mixed == ROWS_READ:  # There may be more in so long a time.
                if edge - low == 1:
                    break
                span = max(1, (edge - low) // 4)
                continue
            found.events = [sum(pair) for pair in zip(found.events, events, strict=True)]
            edge = low
            if running.time() - began < QUICK:
                span = min(2 * span, LONGEST)
    except TimeoutError:
        pass
    if not complete:
        return None
    kept_from = await _kept_from(store, project_id) if found.taken else 0
    return max(edge if edge > bottom else 0, kept_from)


async def _kept_from(store: EventStore, project_id: str) -> int:
    """Since when there are rows: what retention has taken is counted nowhere but in the counters of its cases."""
    [[moment]] = await store.fetch_planned(_KEPT_FROM, project_id=project_id)
    return int(moment or 0)


def _like(pattern: str) -> str:
    """The pattern as `like` takes it, which never backtracks either (`matches` of the state machine says the same)."""
    for special in ("\\", "%", "_"):
        pattern = pattern.replace(special, f"\\{special}")
    return pattern.replace("*", "%")
