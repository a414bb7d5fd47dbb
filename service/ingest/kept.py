"""What is kept of telemetry and how long: the end of what was stored, and counts of what is not (G-071).

A day that nobody's plan keeps any more goes as a whole: its partition is dropped, and none of its rows is deleted
before. What shorter plans keep no longer within days that longer ones still keep is deleted in small steps, each a
transaction of its own; accounts take turns, and after each step others have room. Nothing is remembered between steps
but in the tables: a run that was stopped in the middle is gone on with by the next.

Of a case's last error a sample stays. Names and properties of people go once nobody has sent anything of them for as
long, and none of their records is left.
"""

import asyncio
import contextlib
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import starmap
from typing import Any, NamedTuple

import msgspec
import psycopg
import structlog

from service.billing.plans import Retention
from service.eventstore.connect.facts import DAY, NOT_WRITTEN, Facts
from service.eventstore.connect.hosts import REPLICATED
from service.eventstore.declare import names
from service.eventstore.declare.commands import OutcomeUnknown, alone, leave_room, prepare
from service.eventstore.schema.migrations import TELEMETRY, partitions_of
from service.history.audit import Difference, Report, count_rows, unreported
from service.sql import Query, load_query

# Day partitions of telemetry: made ahead of time, told by their days, and dropped whole (G-071). Each is made and
# dropped under a lock that waits briefly, so that ingest goes on beside it.

log = structlog.get_logger()

Connection = psycopg.AsyncConnection[tuple[Any, ...]]

_TODAY = load_query("ingest", "today")
_ENSURE = load_query("ingest", "ensure_partition")
_DROP = load_query("ingest", "drop_ended_partition")
DAYS_AHEAD = 7
DDL_WAIT = "500ms"
# Who waits to drop a partition has everybody wait behind who comes meanwhile: briefly, and rather once more.
DROP_WAIT = "100ms"
DROP_TRIES = 10
DROP_PAUSE = 0.5


class Partition(NamedTuple):
    """A partition and the epoch of its day's midnight; None for the default one, with whatever found no day's."""

    telemetry: str
    name: str
    day: int | None

    def ended_at(self, moment: int) -> bool:
        """Whether its day was over at a moment; the default one never is."""
        return self.day is not None and self.day + DAY <= moment


async def today_of(connection: Connection) -> int:
    """Epoch of the present day's UTC midnight, on the service's clock."""
    row = await (await connection.execute(_TODAY)).fetchone()
    assert row is not None
    return int(row[0])


async def ensure_partitions(connection: Connection, days_ahead: int = DAYS_AHEAD) -> bool:
    """Give yesterday, today and the coming days their partitions; returns whether all have one now.

    `connection` is in autocommit mode. Each partition is one transaction that gives up after half a second.
    """
    today = await today_of(connection)
    complete = True
    for telemetry in TELEMETRY:
        for ahead in range(-1, days_ahead + 1):
            try:
                async with connection.transaction():
                    await connection.execute(f"set local lock_timeout = '{DDL_WAIT}'")
                    values = {"telemetry": telemetry, "day": today + ahead * DAY}
                    cursor = await connection.execute(_ENSURE, values)
                    row = await cursor.fetchone()
            except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected, psycopg.errors.DuplicateTable):
                complete = False  # Another process makes it, or ingest uses it; the next run finds or makes it.
                continue
            complete = complete and row is not None and bool(row[0])
    return complete


async def partitions(connection: Connection, telemetry: str) -> list[Partition]:
    """All partitions of a telemetry table, oldest day first, the default one last."""
    names = await partitions_of(connection, telemetry)
    return [Partition(telemetry, name, _day_of(name.removeprefix(f"{telemetry}_"))) for name in names]


def _day_of(label: str) -> int | None:
    return None if label == "default" else int(datetime.strptime(f"{label}+0000", "%Y%m%d%z").timestamp())


async def drop_ended(connection: Connection, partition: Partition, moment: int) -> bool:
    """Drop a partition with all that it holds, if its day was over at a moment; False while somebody uses it."""
    for left in reversed(range(DROP_TRIES)):
        try:
            async with connection.transaction():
                await connection.execute(f"set local lock_timeout = '{DROP_WAIT}'")
                values = {"telemetry": partition.telemetry, "partition": partition.name, "ended": moment}
                cursor = await connection.execute(_DROP, values)
                row = await cursor.fetchone()
            return row is not None and bool(row[0])
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            if left:
                await asyncio.sleep(DROP_PAUSE)
        except psycopg.errors.UndefinedTable:
            return False  # Another process was quicker.
    return False


STEP = 2000  # rows a transaction deletes
CASES = 500  # of which a transaction keeps samples
NAMES = 500  # of people that a transaction looks at
PROJECTS = 1000  # whose rows a statement finds
USAGE_DAYS = 400  # usage is shown for a year
FLUSHER_SECONDS = DAY
KIND_DAYS = 90  # of which kinds that are not kept stay counted: more than health shows

_KEEP_SAMPLES = load_query("ingest", "keep_samples")
_HOLDERS = load_query("ingest", "holders")
_DELETE_NAMES = load_query("ingest", "delete_names")
_DELETE_ERASED = load_query("ingest", "delete_erased")
_DELETE_FEEDBACK = load_query("ingest", "delete_feedback")
_DELETE_PROVIDED = load_query("ingest", "delete_provided")
_FORGET_PEOPLE = load_query("ingest", "forget_people")
# Rows are deleted oldest first, so the last sample that is taken is of the last error.
_DELETE = {
    "log_events": load_query("ingest", "delete_errors"),
    "analytics_events": load_query("ingest", "delete_analytics"),
}
_PURGE_USAGE = (load_query("ingest", "purge_usage_days"), load_query("ingest", "purge_usage_deploys"))
_PURGE_FLUSHERS = load_query("ingest", "purge_flushers")
_PURGE_KINDS = load_query("ingest", "purge_kinds")


@dataclass
class _Piece:
    """What a project keeps no longer of a partition: rows received before `until`, of which those from `after` on."""

    partition: Partition
    project_id: str
    until: int
    after: int = 0


async def purge(connection: Connection, kept: Retention) -> int:
    """Carry out retention for every project. Returns how many telemetry rows were deleted one by one.

    `connection` is in autocommit mode, and set up for steps. Repeating it does no harm, and stopping it in the middle
    none either; while another process does it, it does nothing.
    """
    await prepare(connection)
    async with alone(connection, "retention") as free:
        if not free:
            return 0
        today = await today_of(connection)
        await _forget_names(connection, kept, today)
        dropped, lines = 0, dict[str, deque[_Piece]]()
        for telemetry in TELEMETRY:
            there = await partitions(connection, telemetry)
            over = [one for one in there if one.ended_at(today - kept.longest * DAY)]
            for one in over:
                dropped += await _drop(connection, one, today - kept.longest * DAY)
            # One that could not be dropped, because somebody used it all the time, is for the next run.
            await _find(connection, (one for one in there if one not in over), kept, today, lines)
        total = await _delete(connection, lines)
        await _forget_people(connection, kept, today)
        await _forget_old(connection, kept, today, "erased_records", _DELETE_ERASED)
        await _forget_old(connection, kept, today, "feedback_reports", _DELETE_FEEDBACK)
        await _forget_old(connection, kept, today, "provider_counts", _DELETE_PROVIDED)
        for statement in _PURGE_USAGE:
            await connection.execute(statement, {"day": today - USAGE_DAYS * DAY})
        await connection.execute(_PURGE_KINDS, {"day": today - KIND_DAYS * DAY})
        await connection.execute(_PURGE_FLUSHERS, {"before": today - FLUSHER_SECONDS})
        if total or dropped:
            log.info("telemetry_purged", rows=total, partitions=dropped)
        return total


async def _forget_names(connection: Connection, kept: Retention, today: int) -> None:
    """Delete the counts by name of expired days. They go before their rows, and never tell of more."""
    async for project_id in _holders(connection, "event_days"):
        days = kept.days.get(project_id)
        gone = days is not None
        while gone:
            began = time.monotonic()
            values = {"project_id": project_id, "until": today - (days or 0) * DAY}
            [[gone]] = await (await connection.execute(_DELETE_NAMES, values)).fetchall()
            await leave_room(began)


async def _forget_people(connection: Connection, kept: Retention, today: int) -> None:
    """Forget the names and properties of people whose records are all gone. They go after the last of them."""
    async for project_id in _holders(connection, "telemetry_people"):
        days = kept.days.get(project_id)
        after = None if days is None else ""
        while after is not None:
            began = time.monotonic()
            values = {"project_id": project_id, "until": today - (days or 0) * DAY, "after": after, "most": NAMES}
            [[after]] = await (await connection.execute(_FORGET_PEOPLE, values)).fetchall()
            await leave_room(began)


async def _forget_old(connection: Connection, kept: Retention, today: int, table: str, query: Query) -> None:
    """Delete the rows of a table without partitions as old as records would be deleted, step by step."""
    async for project_id in _holders(connection, table):
        days = kept.days.get(project_id)
        gone = 0 if days is None else STEP
        while gone == STEP:
            began = time.monotonic()
            values = {"project_id": project_id, "until": today - (days or 0) * DAY, "most": STEP}
            [[gone]] = await (await connection.execute(query, values)).fetchall()
            await leave_room(began)


async def _holders(connection: Connection, table: str) -> AsyncIterator[str]:
    """The projects with rows in a table, in order, some at a time."""
    last, found = "", PROJECTS
    while found == PROJECTS:
        began = time.monotonic()
        cursor = await connection.execute(_HOLDERS.filled(table=table), {"after": last, "most": PROJECTS})
        holders = [project_id for (project_id,) in await cursor.fetchall()]
        await leave_room(began)
        for project_id in holders:
            yield project_id
        last, found = holders[-1] if holders else "", len(holders)


async def _drop(connection: Connection, partition: Partition, moment: int) -> bool:
    """Keep samples of the cases of a partition, then drop it; returns whether it went."""
    if partition.telemetry == "log_events" and partition.day is not None:
        query = _KEEP_SAMPLES.filled(table=partition.name)
        last: tuple[Any, ...] | None = ("", "", CASES)
        while last is not None and last[2] == CASES:
            began = time.monotonic()
            after_project, after_case, _ = last
            place = {"after_project": after_project, "after_case": after_case}
            cursor = await connection.execute(query, {**place, "most": CASES, "ends": partition.day + DAY})
            last = await cursor.fetchone()
            await leave_room(began)
    return await drop_ended(connection, partition, moment)


async def _find(
    connection: Connection,
    there: Iterable[Partition],
    kept: Retention,
    today: int,
    lines: dict[str, deque[_Piece]],
) -> None:
    """Add what each account's projects keep no longer to its line, oldest day first."""
    shortest = min(kept.days.values(), default=kept.longest)
    for partition in there:
        if partition.day is not None and not partition.ended_at(today - shortest * DAY):
            continue
        async for project_id in _holders(connection, partition.name):
            days = kept.days.get(project_id)
            if days is None:  # It is being deleted, by others.
                continue
            until = today - days * DAY
            if partition.day is None or partition.ended_at(until):
                lines.setdefault(kept.payers[project_id], deque()).append(_Piece(partition, project_id, until))


async def _delete(connection: Connection, lines: dict[str, deque[_Piece]]) -> int:
    """Delete what is in the lines, a step of each account in turn; returns how many rows went."""
    total = 0
    while lines:
        for account, line in list(lines.items()):
            piece, began = line[0], time.monotonic()
            query = _DELETE[piece.partition.telemetry].filled(table=piece.partition.name)
            values = {"project_id": piece.project_id, "after": piece.after, "until": piece.until, "most": STEP}
            cursor = await connection.execute(query, values)
            [[gone, latest]] = await cursor.fetchall()
            total += gone
            piece.after = latest
            if gone < STEP:
                line.popleft()
            if not line:
                del lines[account]
            await leave_room(began)
    return total


# Telemetry that a door answers and does not keep, or refuses for what it is: counted by project, kind and day.
# Nothing that a product sends is dropped silently: the health of its project names it (G-194, G-195). Native records
# without a level are kept, and counted beside: health names their project (G-191). A door notes the amounts in
# memory, and a task writes them every second. A crash loses the last second of these counts. A database that is not
# there loses nothing, as long as the names are no more than MOST_NAMES.

NOT_KEPT = "not_kept"
"""Answered as if kept, so that no SDK repeats it."""
REFUSED = "refused"
"""Refused in the answer."""
LOST = "lost_by_sdk"
"""Dropped by the SDK before it was sent."""
WITHOUT_LEVEL = "without_level"
"""Kept with a level that its sender did not name."""

WRITE_SECONDS = 1.0
LAST_SECONDS = 0.3  # for the amounts of a process that ends, and for its connection
MOST_NAMES = 10_000

_NOTE = load_query("ingest", "note_kinds")


class Kind(NamedTuple):
    """A counted kind. Its name is one of ours."""

    project_id: str
    protocol: str
    kind: str
    outcome: str


def without_level(project_id: str) -> Kind:
    """Native records of a project without a level."""
    return Kind(project_id, "native", "log", WITHOUT_LEVEL)


class KindCounts:
    """The unwritten amounts of one process, and the task of writing them."""

    def __init__(self, conninfo: str) -> None:
        self._facts = Facts(conninfo, "service-kinds", connections=1)
        self._amounts = Counter[Kind]()
        self._task: asyncio.Task[None] | None = None
        self._open = False

    def note(self, kind: Kind, amount: int = 1) -> None:
        """Add to the amount of a kind."""
        if amount > 0 and (kind in self._amounts or len(self._amounts) < MOST_NAMES):
            self._amounts[kind] += amount

    def start(self) -> None:
        """Write the amounts every second from now on."""
        self._task = asyncio.create_task(self._run(), name="kinds-not-kept")

    async def stop(self) -> None:
        """Write the amounts, and close the connection."""
        if self._task is None:
            return
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        if self._open:
            for last in (self._write, self._facts.stop):
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(last(), LAST_SECONDS)

    async def _run(self) -> None:
        await self._facts.start()
        self._open = True
        while True:
            await asyncio.sleep(WRITE_SECONDS)
            await self._write()

    async def _write(self) -> None:
        """Write the amounts. Those of a failed attempt are written later."""
        due, self._amounts = self._amounts, Counter()
        if not due:
            return
        kinds = sorted(due)
        values = {
            "project_ids": [kind.project_id for kind in kinds],
            "protocols": [kind.protocol for kind in kinds],
            "kinds": [kind.kind for kind in kinds],
            "outcomes": [kind.outcome for kind in kinds],
            "amounts": [due[kind] for kind in kinds],
        }
        try:
            async with self._facts.connection() as connection:
                await connection.execute(_NOTE, values)
        except (*NOT_WRITTEN, asyncio.CancelledError) as error:
            for kind in kinds:
                self.note(kind, due[kind])
            if isinstance(error, asyncio.CancelledError):
                raise
            log.warning("kinds_not_written", cause=type(error).__name__)


# Whether what is counted agrees with the rows that were counted. Reads only. Decisions read these counters, no event
# holds them, and no projection folds them. Each is written in the transaction of its rows, so that one snapshot shows
# both. Retention deletes rows and keeps counters, oldest days first and never yesterday's: where it may have been, a
# counter has to be at least what is left. Counts by name go before their rows, by the day, and agree exactly until
# then. Projects under deletion are passed over.


COUNTERS = {
    "case_stats": load_query("ingest", "check_cases"),
    "case_users": load_query("ingest", "check_people"),
    "case_rates": load_query("ingest", "check_rates"),
    "usage_days": load_query("ingest", "check_usage"),
    "usage_deploys": load_query("ingest", "check_deploys"),
    "event_days": load_query("ingest", "check_event_days"),
    "event_name_days": load_query("ingest", "check_event_names"),
    "event_key_days": load_query("ingest", "check_event_keys"),
}
"""The tables of counters by name, each with the query that finds the rows which do not agree."""


def check_counters(
    connection: psycopg.Connection[Any], table: str, report: Report = unreported
) -> Iterator[Difference]:
    """Compare the counters of a table with the rows that they count, in one statement; yields those that differ.

    Each side is read once, whatever the server knows of their sizes: by stale statistics a loop within a loop looks
    cheap, and takes minutes for what a hash takes a second for.
    """
    with connection.transaction():
        connection.execute("set local enable_nestloop = off")
        rows = count_rows(connection, table)
        report(0, rows)
        found = connection.execute(COUNTERS[table], {"days": USAGE_DAYS}).fetchall()
        report(rows, rows)
    yield from starmap(Difference, found)


# Feedback of people, stored beside the errors: at once and durably, since its sender is told so (G-197). Each report
# is a row of its own. It never enters the log, and is no usage. A task finds the errors of earlier reports.

WAITING_SECONDS = DAY + 3600
"""Age of a report up to which its error is looked for. An event's id is known for a day."""
MOST_WAITING = 10_000

_GATE = load_query("ingest", "share_gate")
_FEEDBACK_NOTE = load_query("ingest", "note_feedback")
_SETTLE = load_query("ingest", "settle_feedback")


class FeedbackRow(msgspec.Struct, kw_only=True):
    """A row of feedback_reports without the database's own columns. Field names are columns."""

    id: str
    sent_key: str
    source: str
    message: str
    name: str | None
    email: str | None
    url: str | None
    user_id: str | None
    release: str | None
    environment: str | None
    adjusted: list[str]
    event_key: str | None


class FeedbackReports:
    """The connections of one process for reports."""

    def __init__(self, conninfo: str) -> None:
        self._facts = Facts(conninfo, "service-feedback", durable=True)

    async def start(self) -> None:
        """Allow connections."""
        await self._facts.start()

    async def stop(self) -> None:
        """Close the connections."""
        await self._facts.stop()

    async def store(self, project_id: str, row: FeedbackRow, *, public: bool) -> bool:
        """Store a report. A repeat changes nothing. Returns False for a project under deletion.

        The project's gate is held meanwhile: an erasure finds all reports from before its fence. Raises OutcomeUnknown.
        """
        values = {**msgspec.structs.asdict(row), "project_id": project_id, "public": public}
        values["adjusted"] = msgspec.json.encode(row.adjusted).decode() if row.adjusted else None
        try:
            async with self._facts.connection() as connection, connection.transaction():
                await connection.execute(_GATE, {"gate": names.lock_number(names.gate(project_id))})
                [[taken]] = await (await connection.execute(_FEEDBACK_NOTE, values)).fetchall()
                if connection.listed:  # a repeat writes nothing, and is answered all the same
                    await connection.execute(REPLICATED)
                return bool(taken)
        except (*NOT_WRITTEN, TimeoutError) as error:
            raise OutcomeUnknown from error


async def settle(connection: psycopg.AsyncConnection[tuple[Any, ...]]) -> int:
    """Find the errors of earlier reports. Returns the number of these reports.

    `connection` is in autocommit mode.
    """
    values = {"seconds": WAITING_SECONDS, "most": MOST_WAITING}
    [[found]] = await (await connection.execute(_SETTLE, values)).fetchall()
    return int(found)
