"""Looks at the `$exception` events of connected projects, each counted once (G-182).

A look goes by the provider's time of arrival. It begins LATE_SECONDS before its cursor, for late events, and
knows the counted ones by their uuids. It never reaches back further than REACH. It is stored in steps, the cursor
with the last one. A provider at rest, or without an answer, is looked at again in the next minute.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import msgspec
import psycopg
import structlog

from service.analytics.connected import ConnectedAnalytics
from service.analytics.queries import AnalyticsProviders
from service.eventstore.declare.faults import is_away
from service.eventstore.store import EventStore
from service.fairness.turns import CommandNotDone
from service.ingest.items import Item, Sender
from service.ingest.provided import groups
from service.ingest.provided import groups as provided
from service.ingest.provided.counting import LookLost, LookRow, LookStep, ProvidedCounter, Unstorable
from service.ingest.scrubbing import Scrubber
from service.sql import load_query
from statemachines.kernel.machine import LATE_SECONDS, ReadFailed

log = structlog.get_logger(__name__)

REACH = 900
AT_ONCE = 8
"""Projects looked at side by side."""
STEP = 200
"""Groups of a step."""
WINDOWS = 10
"""Windows of one look, while there is more than fits into one."""
ALL_SECONDS = 50
"""Time of the looks of one round. The rest has its turn in the next minute, first."""

_CONNECTED = load_query("ingest", "connected_projects")
_DISCONNECTED = load_query("ingest", "disconnected_projects")
_LOOK = load_query("ingest", "provider_look")
_MET = load_query("ingest", "known_groups")
_offered = msgspec.json.Decoder(list[provided.KnownGrouping]).decode


class _Ours(NamedTuple):
    """The service's clock beside the provider's, in epoch seconds."""

    now: int
    there: int

    def at(self, moment: int) -> int:
        """A moment of the provider's clock by ours, at the latest now."""
        return min(self.now, moment + self.now - self.there)


class _Read(NamedTuple):
    """The groups of a window with their new exceptions, and up to when it was read.

    `cut`: until then there are more exceptions than the `told` ones.
    """

    fresh: list[provided.GroupCount]
    until: int
    cut: bool = False
    told: int = 0


class _Prepared(NamedTuple):
    """The errors of groups. `waiting`: new groups are left, whose samples were not asked for yet."""

    met: list[provided.MetGroup]
    waiting: bool = False


class ExceptionLooks:
    """The looks of one process."""

    def __init__(
        self, store: EventStore, providers: AnalyticsProviders, scrubber: Scrubber, counter: ProvidedCounter
    ) -> None:
        self._store = store
        self._providers = providers
        self._scrubber = scrubber
        self._counter = counter

    async def run(self) -> int:
        """Look at every connected project once, and drop what is left of disconnected ones.

        Returns how many exceptions were counted.
        """
        for (project_id,) in await self._store.fetch(_DISCONNECTED):
            await self.drop(project_id)
        places = asyncio.Semaphore(AT_ONCE)
        counted = 0

        async def one(project_id: str) -> None:
            nonlocal counted
            async with places:
                try:
                    counted += await self.look(project_id)
                except Exception:
                    log.exception("provider_look_failed", project_id=project_id)  # The others are looked at.

        with suppress(TimeoutError):
            async with asyncio.timeout(ALL_SECONDS), asyncio.TaskGroup() as tasks:
                for (project_id,) in await self._store.fetch(_CONNECTED):
                    tasks.create_task(one(project_id))
        return counted

    def close(self) -> None:
        """Close the connection of the steps."""
        self._counter.close()

    async def drop(self, project_id: str) -> None:
        """Drop what was counted of a disconnected project's provider. What is held is dropped by the next round."""
        try:
            await asyncio.to_thread(self._counter.drop, project_id)
        except (CommandNotDone, psycopg.Error) as error:
            log.info("provider_counts_not_dropped", project_id=project_id, reason=type(error).__name__)

    async def look(self, project_id: str) -> int:
        """Look at a project until nothing is left. Returns how many exceptions were counted."""
        connected = await self._providers.connected(project_id)
        counted, windows = 0, 0
        while connected is not None and windows < WINDOWS:
            windows += 1
            try:
                found, more = await self._window(connected)
            except (LookLost, CommandNotDone) as error:
                log.info("provider_look_given_up", project_id=project_id, reason=type(error).__name__)
                break
            counted += found
            if not more:
                break
        return counted

    async def _window(self, connected: ConnectedAnalytics) -> tuple[int, bool]:
        """Look at one window. Returns how many exceptions were counted, and whether more are known to be there."""
        row = connected.connection
        place = f"{row.host}/{row.provider_project_id}"
        before, known = await self._before(row.project_id)
        moved = before is not None and before.place != place
        look = LookRow(row.project_id, row.id, place, 0, 0, 0) if before is None else before
        look = look._replace(connection_id=row.id, place=place, cursor_at=0 if moved else look.cursor_at)
        asked = await provided.ask_clock(connected, max(0, look.cursor_at - LATE_SECONDS), REACH)
        if isinstance(asked, ReadFailed):
            return 0, False
        ours = _Ours(await self._store.now(), asked[0])
        cursor = min(look.cursor_at, ours.there)
        window = provided.ArrivalWindow(max(cursor - LATE_SECONDS, ours.there - REACH, 0), ours.there)
        read = _Read([], ours.there)
        if asked[1]:
            found = await provided.ask_groups(connected, window)
            if not isinstance(found, ReadFailed) and _is_full(found) and found[-1].minute < cursor:
                window = window._replace(since=cursor)  # The overlap alone is too much, and it was counted.
                found = await provided.ask_groups(connected, window)
            if isinstance(found, ReadFailed):
                return 0, False
            read = _fresh(found, window, cursor, frozenset() if moved else known)
        prepared = await self._prepare(connected, window, read.fresh, ours)
        skipped = await self._left_out(connected, window, read) if read.cut else 0
        if isinstance(prepared, ReadFailed) or isinstance(skipped, ReadFailed):
            return 0, False
        end = look
        if not prepared.waiting:
            end = look._replace(cursor_at=read.until, read_to=ours.at(read.until), skipped=skipped)
        await self._store_all(look, end, prepared.met, read.until, moved=moved)
        more = prepared.waiting or read.until < ours.there
        return sum(one.number for one in prepared.met), more

    async def _before(self, project_id: str) -> tuple[LookRow | None, frozenset[str]]:
        """The look as it stands, and the counted uuids."""
        rows = await self._store.fetch(_LOOK, project_id=project_id)
        if not rows:
            return None, frozenset()
        [[text, uuids]] = rows
        told = msgspec.json.decode(text)
        del told["id"]
        return LookRow(**{**told, "skipped": 0}), frozenset(uuids[at : at + 32] for at in range(0, len(uuids), 32))

    @staticmethod
    async def _left_out(connected: ConnectedAnalytics, window: provided.ArrivalWindow, read: _Read) -> int | ReadFailed:
        """How many exceptions of a window are in no group of its answer, at most."""
        there = await provided.ask_count(connected, window._replace(until=read.until))
        return there if isinstance(there, ReadFailed) else max(0, there - read.told)

    async def _prepare(
        self,
        connected: ConnectedAnalytics,
        window: provided.ArrivalWindow,
        fresh: Sequence[provided.GroupCount],
        ours: _Ours,
    ) -> _Prepared | ReadFailed:
        """The errors of groups, after samples of at most MOST_SAMPLES new ones."""
        if not fresh:
            return _Prepared([])
        project_id = connected.connection.project_id
        first = {groups.group_id(row): row for row in fresh}
        rows = await self._store.fetch(_MET, project_id=project_id, ids=list(first))
        known = {name: _offered(text) for name, text in rows}
        new = {name: first[name] for name in [name for name in first if name not in known][: provided.MOST_SAMPLES]}
        samples: Mapping[str, object] = {}
        if new:
            found = await provided.ask_samples(connected, window, [row.newest for row in new.values()])
            if isinstance(found, ReadFailed):
                return found
            samples = found
        return await asyncio.to_thread(self._prepared, groups.sender_of(project_id), fresh, known, new, samples, ours)

    def _prepared(
        self,
        sender: Sender,
        fresh: Sequence[provided.GroupCount],
        known: Mapping[str, Sequence[provided.KnownGrouping]],
        new: Mapping[str, provided.GroupCount],
        samples: Mapping[str, object],
        ours: _Ours,
    ) -> _Prepared:
        """Group and scrub in a thread. The words of its group stand in for a missing sample."""
        offered = dict(known)
        met: list[provided.MetGroup] = []
        for name, row in new.items():
            item = groups.first_met(sender, row, samples.get(row.newest), self._scrubber)
            offered[name] = [provided.KnownGrouping(*one.grouping) for one in item.offered]
            met.append(self._one(name, row, item, groups.sample_of(item, row, ours.at(row.last)), ours))
        for row in fresh:
            name = groups.group_id(row)
            if name in offered and new.get(name) is not row:
                item = groups.known(sender, row, offered[name], self._scrubber)
                met.append(self._one(name, row, item, None, ours))
        return _Prepared(met, waiting=len(met) < len(fresh))

    @staticmethod
    def _one(
        name: str, row: provided.GroupCount, item: Item, sample: Mapping[str, object] | None, ours: _Ours
    ) -> provided.MetGroup:
        times = ours.at(row.first), ours.at(row.last)
        met = provided.MetGroup(
            name, item, row.number, min(row.people, row.number), bool(row.marked), *times, row.ids, sample
        )
        met.row.happened = ours.at(row.happened)
        return met

    async def _store_all(
        self, look: LookRow, end: LookRow, met: Sequence[provided.MetGroup], last_at: int, *, moved: bool
    ) -> None:
        """Store a window step by step: the look stands as before until the last. Raises LookLost and CommandNotDone."""
        steps = [met[at : at + STEP] for at in range(0, len(met), STEP)] or [[]]
        for place, some in enumerate(steps):
            number = look.number + 1 + place
            stands = (end if place == len(steps) - 1 else look)._replace(number=number)
            step = LookStep(stands, some, last_at, moved=moved and place == 0)
            try:
                await asyncio.to_thread(self._store_step, step)
            except psycopg.Error as error:
                if is_away(error):
                    raise CommandNotDone from error
                raise

    def _store_step(self, step: LookStep) -> None:
        """Store a step, or the number of its exceptions where no column holds them."""
        try:
            self._counter.store(step)
        except Unstorable:
            log.warning("provider_errors_left_out", project_id=step.look.project_id)
            count = sum(one.number for one in step.met)
            look = step.look._replace(skipped=step.look.skipped + count)
            self._counter.store(step._replace(met=[], look=look))


def _fresh(
    rows: Sequence[provided.GroupCount], window: provided.ArrivalWindow, cursor: int, known: frozenset[str]
) -> _Read:
    """What is new in an answer, and up to when it is whole.

    A full answer ends before its last minute, as long as the cursor moves on by it. Else the minute is taken as far
    as it goes.
    """
    until, is_cut = window.until, False
    if _is_full(rows):
        last = rows[-1].minute
        if last > cursor:
            rows, until = [row for row in rows if row.minute < last], last
        else:
            until, is_cut = min(max(last, cursor) + 60, window.until), True
    fresh = [row for row in map(partial(_unknown, known), rows) if row is not None]
    return _Read(fresh, until, is_cut, sum(len(row.ids) for row in rows))


def _is_full(rows: Sequence[provided.GroupCount]) -> bool:
    """Whether there may be more than an answer tells of."""
    return len(rows) >= provided.MOST_GROUPS or sum(len(row.ids) for row in rows) >= provided.MOST_EVENTS


def _unknown(known: frozenset[str], row: provided.GroupCount) -> provided.GroupCount | None:
    """A group with its new exceptions. None for one without, and for one below an error."""
    ids = [one for one in row.ids if one not in known] if groups.is_error(row) else []
    return row._replace(ids=ids, number=len(ids)) if ids else None
