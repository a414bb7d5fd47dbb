"""One statement of the event loop, prepared once and run again and again, past the driver's cursors and waits.

The driver works out types, keeps a cursor and looks for an interrupt ten times a second: for a statement that brings
back one value this cost the event loop more than to send the statement and to read its answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import psycopg
from psycopg.pq.abc import PGresult

from service.eventstore.connection import AsyncConnection
from service.eventstore.pipeline import STALE, WENT_WELL, numbered


class PreparedStatement:
    """A statement with places `%s` on a connection of its own, which nobody else uses until `close`.

    One run at a time. Belongs to the event loop that runs it.
    """

    def __init__(self, connection: AsyncConnection, query: str) -> None:
        self._pgconn = connection.pgconn
        self._socket = connection.fileno()
        self._encoding = connection.info.encoding
        self._text, self._places = numbered(query)
        self._loop = asyncio.get_running_loop()
        self._name = b""  # empty until it is prepared
        self._made = 0
        self._answer: asyncio.Future[PGresult] | None = None
        self._results: list[PGresult] = []
        self._room: asyncio.Future[None] | None = None  # until the server takes more in
        self._loop.add_reader(self._socket, self._take_in)
        self._listens = True

    async def run(self, values: Sequence[str | int | None]) -> bytes | None:
        """Run the statement and return the first value of its one row, as text. Raises psycopg.Error."""
        assert len(values) == self._places, f"{len(values)} values for {self._places} places"
        dumped = [None if value is None else str(value).encode() for value in values]
        if any(value is not None and b"\0" in value for value in dumped):
            raise psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
        if not self._name:
            self._made += 1
            name = b"s%d" % self._made
            self._pgconn.send_prepare(name, self._text)
            await self._hear()
            self._name = name
        self._pgconn.send_query_prepared(self._name, dumped)
        return (await self._hear()).get_value(0, 0)

    def close(self) -> None:
        """Leave the connection to whoever closes it. A run that waits for its answer never ends; may be called twice.

        Once the socket is closed its number may be that of another.
        """
        if not self._listens:
            return
        self._listens = False
        self._loop.remove_reader(self._socket)
        if self._room is not None:
            self._has_room()

    async def _hear(self) -> PGresult:
        """Send what was said and wait for the answer to it. Raises psycopg.Error."""
        assert self._answer is None or self._answer.done(), "one run at a time"
        answer: asyncio.Future[PGresult] = self._loop.create_future()
        self._answer = answer
        try:
            while not answer.done() and self._pgconn.flush():
                # What the server says meanwhile is read, or neither would go on.
                self._room = self._loop.create_future()
                self._loop.add_writer(self._socket, self._has_room)
                await self._room
        except BaseException:
            answer.cancel()
            raise
        result = await answer
        if result.status in WENT_WELL:
            return result
        error = psycopg.errors.error_from_result(result, self._encoding)
        if error.sqlstate in STALE:
            self._name = b""
        raise error

    def _has_room(self) -> None:
        room, self._room = self._room, None
        self._loop.remove_writer(self._socket)
        if room is not None and not room.done():
            room.set_result(None)

    def _take_in(self) -> None:
        """Read what has come, and tell whoever waits once the answer is whole or the session lost.

        The server commits after it has sent the row, so an answer is whole only when the session is ready for more.
        """
        try:
            self._pgconn.consume_input()
            while not self._pgconn.is_busy():
                result = self._pgconn.get_result()
                if result is None:
                    break
                self._results.append(result)
            else:
                return
        except psycopg.Error as lost:
            self.close()  # Else it would be called for ever.
            self._tell(lost)
        else:
            self._tell(None)

    def _tell(self, lost: psycopg.Error | None) -> None:
        """Give what has come to whoever waits; why the server ended the session says more than that it is lost."""
        results, self._results = self._results, []
        answer = self._answer
        if answer is None or answer.done():
            return
        failed = next((result for result in results if result.status not in WENT_WELL), None)
        if failed is not None:
            answer.set_result(failed)
        elif lost is not None:
            answer.set_exception(lost)
        elif results:
            answer.set_result(results[-1])
