"""How many new cases a project may still open in this hour (G-136), and how many of them by its public DSN (G-184).

The count is a row of its own for each project, locked from when a flush looks at it until its commit: however many
flushes race, no case too many is opened. Only a flush that has something new to open touches the row.

Whoever reads the source of a page has the public DSN. It opens at most half of an hour's cases, so that the errors of
servers keep the other half, whatever pages send.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from service.eventstore.connect.connection import Connection
from service.eventstore.connect.pipeline import array, columns
from service.ingest.flush import statements
from statemachines.cases.case import public_share

HOUR = 3600


@dataclass(slots=True)
class CaseRoom:
    """The room of a project in an hour (epoch seconds of its start): cases opened before this flush, and by it.

    Those with `public` are of these the ones by the public DSN.
    """

    hour: int
    limit: int
    before: int
    public_before: int
    opened: int = 0
    public_opened: int = 0

    def has_room(self, *, public: bool) -> bool:
        """Whether an error, by the `public` DSN or the server's, may open one more case."""
        if self.before + self.opened >= self.limit:
            return False
        return not public or self.public_before + self.public_opened < public_share(self.limit)

    def open(self, *, public: bool) -> None:
        """Count a case that an error has opened."""
        self.opened += 1
        self.public_opened += public


def enter_rooms(connection: Connection, project_ids: Iterable[str], now: int, limit: int) -> Mapping[str, CaseRoom]:
    """Lock and read the counts of these projects, in the order of their ids; at `now` in epoch seconds.

    An hour never ends twice: a flush that comes late counts into the hour that another has begun. Raises psycopg.Error.
    """
    wanted = sorted(project_ids)
    if not wanted:
        return {}
    rows = connection.execute(statements.ENTER_ROOMS, (now - now % HOUR, array(wanted)), prepare=True).fetchall()
    return {project_id: CaseRoom(hour, limit, opened, public) for project_id, hour, opened, public in rows}


def leave_rooms(connection: Connection, rooms: Mapping[str, CaseRoom]) -> None:
    """Add what was opened. Raises psycopg.Error."""
    used = [(project_id, room.opened, room.public_opened) for project_id, room in rooms.items() if room.opened]
    if used:
        connection.execute(statements.LEAVE_ROOMS, columns(used, 3), prepare=True)
