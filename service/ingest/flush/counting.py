"""The whole of a flush that has nothing to decide, in one statement: checked under its locks, stored and committed.

Most flushes are such. This one belongs to the event loop, which is where the records come from and their answers go
to: a thread that waits for the database would wait as long again for its turn of the interpreter.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Iterable

from service.eventstore.connect.connection import AsyncConnection, connect_async
from service.eventstore.connect.pipeline import array, columns
from service.eventstore.connect.prepared import PreparedStatement
from service.eventstore.declare import names
from service.eventstore.declare.faults import Fault, judge
from service.eventstore.state.loading import Footprint
from service.ingest.flush import statements
from service.ingest.flush.tally import Tally

Parameters = tuple[str | int | None, ...]


def parameters(
    flusher: str,
    flusher_name: str,
    number: int,
    footprint: Footprint,
    heads: Iterable[tuple[str, str, int]],
    senders: Iterable[tuple[str, str, str]],
    tally: Tally,
) -> Parameters:
    """Lay out what `ingest_flush` checks (gates, cases and senders as they are known, new keys) and what it stores.

    `heads` are the revisions of cases, 0 for one that must not exist. `senders` are the DSNs that records came by, by
    project and hash, with the account that pays.
    """
    return (
        array(names.lock_number(name) for name in footprint.gates),
        array(names.lock_number(name) for name in footprint.names if name != flusher_name),
        names.lock_number(flusher_name),
        *columns(heads, 3),
        *columns(senders, 3),
        flusher,
        number,
        tally.key_record_parameter(),
        tally.parts_parameter(),
        *tally.parameters(),
    )


class CountingSession:
    """The connection of the event loop, opened when it is needed. One statement at a time."""

    def __init__(self, conninfo: str, application: str) -> None:
        self._conninfo = conninfo
        self._application = application
        self._connection: AsyncConnection | None = None
        self._statement: PreparedStatement | None = None
        self._news = select.poll()
        self.pid = 0  # of the last session

    async def open(self) -> None:
        """Open the connection if there is none, and replace one that its server has ended while it was idle.

        A statement is then sent to a session that existed a moment ago, so that its outcome is rarely in doubt.
        Raises psycopg.OperationalError when the database is not there.
        """
        if self._connection is not None and self._news.poll(0):
            await self.reset()
        if self._connection is None:
            self._connection = await connect_async(self._conninfo, application=self._application)
            self._statement = PreparedStatement(self._connection, statements.FLUSH)
            self.pid = self._connection.info.backend_pid
            self._news.register(self._connection.fileno(), select.POLLIN)

    async def store(self, values: Parameters) -> int | None:
        """Run the statement, which commits by itself; its answer comes after the commit.

        Returns the time of receipt in epoch seconds, None when nothing was stored. Raises psycopg.Error.
        """
        assert self._statement is not None, "opened first"
        received_at = await self._statement.run(values)
        return None if received_at is None else int(received_at)

    def judge(self, error: Exception) -> Fault:
        """Say what an error of `store` means."""
        return judge(error, self._connection)

    def abort(self) -> None:
        """Close the socket at once, without ending the session, whatever runs on it."""
        if self._connection is not None:
            asyncio.get_running_loop().remove_reader(self._connection.fileno())
            self._connection.pgconn.finish()

    async def reset(self) -> None:
        """Close the connection."""
        connection, self._connection, self._statement = self._connection, None, None
        if connection is not None:
            self._news = select.poll()
            await connection.close()
