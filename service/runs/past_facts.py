"""What is still known of a project's past days: its cases, their errors by the second, and when it was looked for work.

All of it is read in one snapshot. Counts at a past moment follow from the counts of now and the errors stored since.
What older errors would have to tell, which retention has taken, is not guessed: such a case is named, with what is
missing of it.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple

from projections.onboarding import fold_signal_map as fold_map
from schemas.runs.decision import MAX_SHOWN
from service.eventstore.connect.pipeline import array
from service.eventstore.read.reader import AsyncConnection
from service.eventstore.store import EventStore
from service.runs.backtesting import CaseMoved, Change, Errors, KnownCase, LookTaken, Mapped, TooMuch
from service.runs.looking import ENVIRONMENTS_KEPT, LOOKED_AT, Looker
from service.sql import Query, load_query
from statemachines.kernel.machine import Recorded
from statemachines.kernel.topics import UnknownTopic, decode_events
from statemachines.onboarding import signal_map as signal_maps

BATCH = 2_000
"""Rows that are taken in between two moments at which the event loop does other things."""
MOST = 300_000
"""Seconds with errors, events of cases, or looks that one back-test takes in."""
NAMED = MAX_SHOWN + 1
"""Unchanged cases without any error left that are read: one more than an answer names."""
MOST_CASES = 20_000
"""Cases to which something happened in the time that one back-test takes in."""
HOUR, DAY = 3600, 86400

_NOW = load_query("runs/background", "now_seconds")
_CHANGED = load_query("runs/background", "past_changed")
_UNCHANGED = load_query("runs/background", "past_unchanged")
_COUNTS = load_query("runs/background", "past_counts")
_ERRORS = load_query("runs/background", "past_errors")
_EVENTS = load_query("runs/background", "past_events")
_STREAM = load_query("runs/background", "past_stream")
_LOOKS = load_query("runs/background", "past_looks")


class Unknown(NamedTuple):
    """A case with a gap in its data, and the gap."""

    case_id: str
    missing: Sequence[str]


class PastFacts(NamedTuple):
    """What is known of the days from `start` to `end` (epoch seconds); `known` is as of the start."""

    start: int
    end: int
    known: dict[str, KnownCase]
    changes: list[Change]
    looks: list[LookTaken]
    unknown: list[Unknown]


async def read_past(store: EventStore, project_id: str, days: int, automation_ids: Sequence[str]) -> PastFacts:
    """Read the last `days` of a project. Raises TooMuch, and what reading raises."""
    async with store.connection() as connection, connection.transaction():
        await connection.execute("set transaction isolation level repeatable read")
        [[end]] = await (await connection.execute(_NOW)).fetchall()
        start = end - days * DAY
        known, unknown = await _cases(connection, project_id, start)
        changes: list[Change] = []
        async with aclosing(_batches(connection, _ERRORS, project_id=project_id, start=start)) as batches:
            async for rows in batches:
                changes += (Errors(*row) for row in rows)
                _bound(changes)
        async with aclosing(_events(connection, project_id, start, known, unknown)) as moved:
            async for change in moved:
                changes.append(change)
                _bound(changes)
        changes += await _maps(connection, project_id)
        looks = await _looks(connection, project_id, start, end, automation_ids)
    await asyncio.to_thread(changes.sort, key=lambda change: change.at)
    for case_id in unknown:
        known.pop(case_id, None)
    named = [Unknown(case_id, missing) for case_id, missing in sorted(unknown.items())]
    return PastFacts(start, end, known, changes, looks, named)


async def _cases(
    connection: AsyncConnection, project_id: str, start: int
) -> tuple[dict[str, KnownCase], dict[str, Sequence[str]]]:
    """The cases that a look may have come to, as of the start, and what is missing of some, whose errors are gone.

    These are the cases to which something happened since, and of the others, which kept their order all the time, as
    many as one look takes in: the first of those of which all is known. Those without any error left are named.
    """
    changed: set[str] = set()
    async with aclosing(_batches(connection, _CHANGED, project_id=project_id, start=start)) as batches:
        async for rows in batches:
            changed |= {case_id for (case_id,) in rows}
            if len(changed) > MOST_CASES:
                raise TooMuch
    changed_ids = array(changed)
    known, unknown = await _counts(connection, project_id, start, changed_ids)
    for kept, size, enough in ((True, LOOKED_AT, LOOKED_AT), (False, NAMED, 0)):
        steady = 0
        async for page in _unchanged(connection, project_id, start, changed_ids, size, kept=kept):
            found, missing = await _counts(connection, project_id, start, array(page))
            known |= found
            unknown |= missing
            steady += len(found) - len(missing)
            if steady >= enough:
                break
    return known, unknown


async def _unchanged(
    connection: AsyncConnection, project_id: str, start: int, changed: str, size: int, *, kept: bool
) -> AsyncIterator[Sequence[str]]:
    """Open cases to which nothing happened since, in the order of looks; those with errors left, or the others."""
    of_project = {"project_id": project_id, "start": start, "kept": kept, "changed": changed, "most": size}
    place = {"after_count": -sys.maxsize, "after_seen": 0, "after_id": ""}
    while True:
        rows = await _fetch(connection, _UNCHANGED, **of_project, **place)
        yield [case_id for case_id, _, _ in rows]
        if len(rows) < size:
            return
        case_id, count, last_seen_at = rows[-1]
        place = {"after_count": -count, "after_seen": -last_seen_at, "after_id": case_id}


async def _counts(
    connection: AsyncConnection, project_id: str, start: int, case_ids: str
) -> tuple[dict[str, KnownCase], dict[str, Sequence[str]]]:
    """The counts of cases (an array literal of ids) at the start, and what is missing of those with errors gone."""
    known: dict[str, KnownCase] = {}
    unknown: dict[str, Sequence[str]] = {}
    async for rows in _batches(connection, _COUNTS, project_id=project_id, case_ids=case_ids, start=start):
        for case_id, *counted in rows:
            case, missing = _as_of_start(_Counted(*counted))
            known[case_id] = case
            if missing:
                unknown[case_id] = missing
    return known, unknown


class _Counted(NamedTuple):
    """What is counted of a case in all, among the stored errors up to the start (`kept`), and after it (`since`)."""

    total: int
    first_seen_at: int
    unmarked: bool
    environments: Sequence[str]
    kept: int | None
    last_seen_at: int | None
    was_unmarked: bool | None
    were_in: Sequence[str] | None
    since: int


def _as_of_start(found: _Counted) -> tuple[KnownCase, list[str]]:
    """A case as of the start, and what is missing of it because errors from before are gone."""
    before, seen_in = found.total - found.since, set(found.were_in or ())
    gone = before > (found.kept or 0)
    missing = ["last_seen_at"] if before and not found.kept else []
    if gone and found.unmarked and not found.was_unmarked:
        missing.append("trust")
    if (gone and not set(found.environments) <= seen_in) or len(found.environments) >= ENVIRONMENTS_KEPT:
        missing.append("environments")
    case = KnownCase(
        event_count=before,
        first_seen_at=found.first_seen_at,
        last_seen_at=found.last_seen_at or 0,
        unmarked=bool(found.was_unmarked),
        environments=seen_in,
    )
    return case, missing


async def _events(
    connection: AsyncConnection,
    project_id: str,
    start: int,
    known: dict[str, KnownCase],
    unknown: dict[str, Sequence[str]],
) -> AsyncGenerator[Change]:
    """What happened to the cases since the start; what had happened before is folded into `known`."""
    async with aclosing(_batches(connection, _EVENTS, project_id=project_id, case_ids=array(known))) as batches:
        async for page in batches:
            events = decode_events([row[2] for row in page], [row[3] for row in page])
            for (case_id, _, _, _, at), event in zip(page, events, strict=True):
                if isinstance(event, UnknownTopic):
                    unknown[case_id] = ["events of a later release"]
                elif event is not None and case_id in known and at <= start:
                    known[case_id].move(event, at)
                elif event is not None and case_id in known:
                    yield CaseMoved(at, case_id, event)


async def _maps(connection: AsyncConnection, project_id: str) -> list[Change]:
    """The signal map, from each moment at which it changed."""
    stream_id = signal_maps.stream(project_id).id
    rows = await _fetch(connection, _STREAM, project_id=project_id, stream_id=stream_id)
    found: list[Change] = []
    row = None
    events = decode_events([stored[1] for stored in rows], [stored[2] for stored in rows])
    for (revision, _, _, at), event in zip(rows, events, strict=True):
        if event is not None and not isinstance(event, UnknownTopic):
            row = fold_map(row, Recorded(stream_id, revision, event, project_id, at, ""))
            found.append(Mapped(at, row))
    return found


async def _looks(
    connection: AsyncConnection, project_id: str, start: int, end: int, automation_ids: Sequence[str]
) -> list[LookTaken]:
    """The looks that each automation would have had: those of its own name, else each sweep of the project."""
    own: dict[str, set[tuple[int, Looker]]] = {automation_id: set() for automation_id in automation_ids}
    swept: set[tuple[int, Looker]] = set()
    async for rows in _batches(connection, _LOOKS, project_id=project_id, since=start - HOUR):
        for automation_id, hour, look, asked_by, seconds in rows:
            asked = Looker(look, asked_by)
            moments = {(hour + second, asked) for second in seconds if start < hour + second <= end}
            if look == "sweep":
                swept |= moments
            if automation_id in own:
                own[automation_id] |= moments
        _bound(swept)
    order = {automation_id: number for number, automation_id in enumerate(automation_ids)}
    looks = [LookTaken(at, name, asked) for name in automation_ids for at, asked in own[name] or swept]
    _bound(looks)
    await asyncio.to_thread(looks.sort, key=lambda look: (look.at, order[look.automation_id], look.asked))
    return looks


def _bound(found: Collection[Any]) -> None:
    if len(found) > MOST:
        raise TooMuch


async def _fetch(connection: AsyncConnection, query: Query, **values: Any) -> list[tuple[Any, ...]]:
    """All rows of a query."""
    return await (await connection.execute(query, values)).fetchall()


async def _batches(connection: AsyncConnection, query: Query, **values: Any) -> AsyncGenerator[list[tuple[Any, ...]]]:
    """The rows of a query, some at a time."""
    async with connection.cursor(name="past") as cursor:
        await cursor.execute(query, values)
        while rows := await cursor.fetchmany(BATCH):
            yield rows
