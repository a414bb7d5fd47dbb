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
from typing import NamedTuple

import structlog

from service.eventstore.connect.facts import NOT_WRITTEN, Facts
from service.eventstore.declare.sqlfiles import load_sql

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
