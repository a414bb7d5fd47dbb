"""Telemetry that a door answers and does not keep, or refuses for what it is: counted by project, kind and day.

Nothing that a product sends is dropped silently: the health of its project names it (G-194, G-195). Native records
without a level are kept, and counted beside: health names their project (G-191). A door notes the
amounts in memory, and a task writes them every second. A crash loses the last second of these counts. A database that
is not there loses nothing, as long as the names are no more than MOST_NAMES.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator
from itertools import starmap
from typing import Any, NamedTuple

import msgspec
import psycopg
import structlog

from service.eventstore.connect.facts import DAY, NOT_WRITTEN, Facts
from service.eventstore.declare import names
from service.eventstore.declare.commands import OutcomeUnknown
from service.eventstore.declare.names import load_sql
from service.eventstore.history.audit import Difference, Report, count_rows, unreported
from service.ingest.foreign.feedback import FeedbackRow
from service.ingest.kept.retention import USAGE_DAYS

log = structlog.get_logger(__name__)

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

_NOTE = load_sql("ingest", "note_kinds")


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
                await connection.execute(_NOTE.encode(), values)
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

Connection = psycopg.Connection[Any]


COUNTERS = {
    "case_stats": load_sql("ingest", "check_cases"),
    "case_users": load_sql("ingest", "check_people"),
    "case_rates": load_sql("ingest", "check_rates"),
    "usage_days": load_sql("ingest", "check_usage"),
    "usage_deploys": load_sql("ingest", "check_deploys"),
    "event_days": load_sql("ingest", "check_event_days"),
    "event_name_days": load_sql("ingest", "check_event_names"),
    "event_key_days": load_sql("ingest", "check_event_keys"),
}
"""The tables of counters by name, each with the query that finds the rows which do not agree."""


def check_counters(connection: Connection, table: str, report: Report = unreported) -> Iterator[Difference]:
    """Compare the counters of a table with the rows that they count, in one statement; yields those that differ.

    Each side is read once, whatever the server knows of their sizes: by stale statistics a loop within a loop looks
    cheap, and takes minutes for what a hash takes a second for.
    """
    with connection.transaction():
        connection.execute("set local enable_nestloop = off")
        rows = count_rows(connection, table)
        report(0, rows)
        found = connection.execute(COUNTERS[table].encode(), {"days": USAGE_DAYS}).fetchall()
        report(rows, rows)
    yield from starmap(Difference, found)


# Feedback of people, stored beside the errors: at once and durably, since its sender is told so (G-197). Each report
# is a row of its own. It never enters the log, and is no usage. A task finds the errors of earlier reports.

WAITING_SECONDS = DAY + 3600
"""Age of a report up to which its error is looked for. An event's id is known for a day."""
MOST_WAITING = 10_000

_GATE = load_sql("ingest", "share_gate")
_FEEDBACK_NOTE = load_sql("ingest", "note_feedback")
_SETTLE = load_sql("ingest", "settle_feedback")


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
                await connection.execute(_GATE.encode(), {"gate": names.lock_number(names.gate(project_id))})
                [[taken]] = await (await connection.execute(_FEEDBACK_NOTE.encode(), values)).fetchall()
                return bool(taken)
        except (*NOT_WRITTEN, TimeoutError) as error:
            raise OutcomeUnknown from error


async def settle(connection: psycopg.AsyncConnection[tuple[Any, ...]]) -> int:
    """Find the errors of earlier reports. Returns the number of these reports.

    `connection` is in autocommit mode.
    """
    values = {"seconds": WAITING_SECONDS, "most": MOST_WAITING}
    [[found]] = await (await connection.execute(_SETTLE.encode(), values)).fetchall()
    return int(found)
