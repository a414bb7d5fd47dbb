"""Connections that write facts outside streams: notes that no command makes and no event holds.

Never events, heads or rows of read models: those have the command loop alone. What is written here is worked out again
by whoever finds it missing, so whoever writes it goes on when it cannot be written.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import psycopg
from psycopg_pool import AsyncConnectionPool, PoolTimeout, TooManyRequests

from service.eventstore.connect.connection import IDLE_SECONDS, ReadingConnection, take_from
from service.eventstore.connect.hosts import CONNECT_SECONDS, NOTICE_SILENCE

AsyncConnection = psycopg.AsyncConnection[tuple[Any, ...]]

CONNECTIONS = 2
WAITING = 64
WAIT_SECONDS = 1.0
MOST_SECONDS = 4.0  # a note takes at most, also when the server has fallen silent; then TimeoutError
_SETTINGS = (
    "statement_timeout = '2s'",
    "lock_timeout = '500ms'",
    "idle_in_transaction_session_timeout = '1s'",
)
# What a crash takes is worked out again like anything else that is missing; nobody waits for the disk meanwhile.
_NOT_DURABLE = "synchronous_commit = off"
NOT_WRITTEN = (psycopg.Error, PoolTimeout, TooManyRequests, OSError)
"""What `connection` and statements on it may raise when the database cannot take the note now."""


class Facts:
    """The connections of one process, opened when they are needed.

    With `durable`, a crash of the database takes nothing.
    """

    def __init__(
        self,
        conninfo: str,
        application: str = "service-facts",
        *,
        connections: int = CONNECTIONS,
        durable: bool = False,
    ) -> None:
        self._conninfo = conninfo
        self._application = application
        self._connections = connections
        self._settings = _SETTINGS if durable else (*_SETTINGS, _NOT_DURABLE)
        self._pool: AsyncConnectionPool[ReadingConnection] | None = None

    async def start(self) -> None:
        """Allow connections; none is opened before it is asked for."""
        self._pool = AsyncConnectionPool(
            self._conninfo,
            connection_class=ReadingConnection,
            min_size=0,
            max_size=self._connections,
            max_waiting=WAITING,
            max_idle=IDLE_SECONDS,
            timeout=WAIT_SECONDS,
            num_workers=1,
            kwargs={
                "autocommit": True,
                "application_name": self._application,
                "connect_timeout": CONNECT_SECONDS,
                **NOTICE_SILENCE,
            },
            configure=self._configure,
            open=False,
        )
        await self._pool.open()

    async def stop(self) -> None:
        """Close the connections."""
        if self._pool is not None:
            await self._pool.close()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[ReadingConnection]:
        """Lend a connection in autocommit mode. Raises what NOT_WRITTEN names."""
        assert self._pool is not None, "the store is not started"
        async with asyncio.timeout(MOST_SECONDS):
            connection = await take_from(self._pool)
            try:
                async with connection:
                    yield connection
            except psycopg.errors.ReadOnlySqlTransaction:
                if connection.listed:
                    await connection.close()  # its host takes no writes any more
                raise
            finally:
                await self._pool.putconn(connection)

    async def _configure(self, connection: ReadingConnection) -> None:
        for setting in self._settings:
            await connection.execute(f"set {setting}")


# The time of the database in SQL, for statements that are put together in Python. Each constant is a scalar subquery:
# a statement asks once for the time, however many rows it looks at, and an index on the compared column serves. A
# process's own clock decides nothing.

DAY: Final = 86400
"""Seconds."""

NOW: Final = "(select service_now())"
"""The moment, as timestamptz."""

NOW_SECONDS: Final = "(select service_seconds())"
"""Whole epoch seconds, as bigint: what deadlines, leases and times of receipt are told in."""
