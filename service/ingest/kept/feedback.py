"""Feedback of people, stored beside the errors: at once and durably, since its sender is told so (G-197).

Each report is a row of its own. It never enters the log, and is no usage. A task finds the errors of earlier
reports.
"""

from __future__ import annotations

from typing import Any

import msgspec
import psycopg

from service.eventstore.connect.clock import DAY
from service.eventstore.connect.facts import NOT_WRITTEN, Facts
from service.eventstore.declare import names
from service.eventstore.declare.commands import OutcomeUnknown
from service.eventstore.declare.sqlfiles import load_sql
from service.ingest.foreign.feedback import FeedbackRow

WAITING_SECONDS = DAY + 3600
"""Age of a report up to which its error is looked for. An event's id is known for a day."""
MOST_WAITING = 10_000

_GATE = load_sql("ingest", "share_gate")
_NOTE = load_sql("ingest", "note_feedback")
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
                [[taken]] = await (await connection.execute(_NOTE.encode(), values)).fetchall()
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
