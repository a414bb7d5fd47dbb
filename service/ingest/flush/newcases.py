"""How many new cases a project may still open in this hour (G-136).

The count is a row of its own for each project, locked from when a flush looks at it until its commit: however many
flushes race, no case too many is opened. Only a flush that has something new to open touches the row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from service.eventstore.connect.arrays import array, columns
from service.eventstore.connect.connection import Connection
from service.ingest.flush import statements

HOUR = 3600


@dataclass(slots=True)
class CaseRoom:
    """The room of a project in an hour (epoch seconds of its start): cases opened before this flush, and by it."""

    hour: int
    limit: int
    before: int
    opened: int = 0

    @property
    def left(self) -> int:
        """Cases that may still be opened."""
        return max(0, self.limit - self.before - self.opened)


def enter_rooms(connection: Connection, project_ids: Iterable[str], now: int, limit: int) -> Mapping[str, CaseRoom]:
    """Lock and read the counts of these projects, in the order of their ids; at `now` in epoch seconds.

    An hour never ends twice: a flush that comes late counts into the hour that another has begun. Raises psycopg.Error.
    """
    wanted = sorted(project_ids)
    if not wanted:
        return {}
    rows = connection.execute(statements.ENTER_ROOMS, (now - now % HOUR, array(wanted)), prepare=True).fetchall()
    return {project_id: CaseRoom(hour, limit, opened) for project_id, hour, opened in rows}


def leave_rooms(connection: Connection, rooms: Mapping[str, CaseRoom]) -> None:
    """Add what was opened. Raises psycopg.Error."""
    used = [(project_id, room.opened) for project_id, room in rooms.items() if room.opened]
    if used:
        connection.execute(statements.LEAVE_ROOMS, columns(used, 2), prepare=True)
