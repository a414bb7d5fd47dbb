"""One statement of the event loop, prepared once and run again and again, past the driver's cursors.

The driver works out types and does the bookkeeping of a cursor: for a statement that brings back one value this cost
the event loop more than to send the statement and to read its answer.
"""

from __future__ import annotations

from collections.abc import Sequence

import psycopg
from psycopg.abc import PQGen
from psycopg.generators import fetch, send
from psycopg.pq.abc import PGresult

from service.eventstore.connect.connection import AsyncConnection
from service.eventstore.connect.pipeline import STALE, WENT_WELL, numbered
from service.sql import Statement


class PreparedStatement:
    """A statement with places `%s` on a connection of its own, which nobody else uses. One run at a time."""

    def __init__(self, connection: AsyncConnection, query: Statement) -> None:
        self._connection = connection
        self._pgconn = connection.pgconn
        self._text, self._places = numbered(str(query))
        self._name = b""  # empty until it is prepared
        self._made = 0

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
            await self._connection.wait(self._exchange())
            self._name = name
        self._pgconn.send_query_prepared(self._name, dumped)
        return (await self._connection.wait(self._exchange())).get_value(0, 0)

    def _exchange(self) -> PQGen[PGresult]:
        """Send what was said and take in the answer to it. Raises psycopg.Error.

        The server commits after it has sent the row, so an answer is whole only when the session is ready for more. Why
        the server ended the session says more than that it is lost.
        """
        results: list[PGresult] = []
        lost: psycopg.Error | None = None
        try:
            yield from send(self._pgconn)
            while (result := (yield from fetch(self._pgconn))) is not None:
                results.append(result)
        except psycopg.Error as error:
            lost = error
        failed = next((result for result in results if result.status not in WENT_WELL), None)
        if failed is not None:
            refused = psycopg.errors.error_from_result(failed, self._connection.info.encoding)
            if refused.sqlstate in STALE:
                self._name = b""
            raise refused
        if lost is not None:
            raise lost
        return results[-1]
