"""The event store as the rest of the service sees it: commands in, outcomes out, and reads of read models."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, TypeVar, cast

import msgspec
import psycopg
from psycopg_pool import AsyncConnectionPool

from projections.kernel.projection import Table
from service.eventstore.clock import NOW_SECONDS
from service.eventstore.commands import Command, CommandNotDone, Outcome, OutcomeUnknown
from service.eventstore.connection import NOTICE_SILENCE
from service.eventstore.entry import DEADLINE, DOUBT_DEADLINE
from service.eventstore.lane import FenceLane
from service.eventstore.loop import CommandLoop
from service.eventstore.unit import Registry

R = TypeVar("R", bound=msgspec.Struct)
Row = tuple[Any, ...]
AsyncConnection = psycopg.AsyncConnection[Row]

READ_CONNECTIONS = 6
READ_WAITING = 512
READ_TIMEOUT = 1.0  # seconds a read waits for a connection; then psycopg_pool.PoolTimeout, a 503
# The loop gives commands up itself, in time. This bounds what it cannot see: its own wait for a silent database.
LONGEST = DEADLINE + DOUBT_DEADLINE + 2.5


class EventStore:
    """One per process. Commands go through its loop (or its fence lane); reads through an asynchronous pool."""

    def __init__(self, conninfo: str, registry: Registry) -> None:
        self.conninfo = conninfo
        self.registry = registry
        self.loop = CommandLoop(conninfo, registry)
        self.lane = FenceLane(conninfo, registry)
        self.installation_salt = ""
        self._pool: AsyncConnectionPool[AsyncConnection] | None = None

    async def start(self) -> None:
        """Open the pool and start the threads. Raises psycopg_pool.PoolTimeout when there is no database."""
        self._pool = AsyncConnectionPool(
            self.conninfo,
            min_size=1,
            max_size=READ_CONNECTIONS,
            max_waiting=READ_WAITING,
            timeout=READ_TIMEOUT,
            kwargs={
                "autocommit": True,
                "application_name": "service-read",
                "prepare_threshold": 2,
                **NOTICE_SILENCE,
            },
            configure=_configure_reader,
            open=False,
        )
        await self._pool.open(wait=True, timeout=10)
        [[self.installation_salt]] = await self.fetch("select salt from installation")
        self.start_writing()

    def start_writing(self) -> None:
        """Start only the loop and the lane: what a synchronous process needs."""
        self.loop.start()
        self.lane.start()

    async def stop(self) -> None:
        """Answer what is queued and close everything."""
        await asyncio.to_thread(self.stop_writing)
        if self._pool is not None:
            await self._pool.close()

    def stop_writing(self) -> None:
        """Stop the loop and the lane."""
        self.loop.stop()
        self.lane.stop()

    async def execute(self, command: Command) -> Outcome:
        """Carry out a command.

        Raises the Rejection of its decision, KeyReused (422), KeyInProgress (409), CommandNotDone and
        OutcomeUnknown (503), CommandFailed (400).
        """
        running = asyncio.get_running_loop()
        waiter: asyncio.Future[Outcome] = running.create_future()
        (self.lane if command.exclusive else self.loop).submit(command, waiter)
        giving_up = running.call_later(LONGEST, _give_up, waiter)
        try:
            return await waiter
        finally:
            giving_up.cancel()

    def execute_sync(self, command: Command) -> Outcome:
        """Carry out a command from a thread without an event loop. Raises as `execute`."""
        waiter: Future[Outcome] = Future()
        (self.lane if command.exclusive else self.loop).submit(command, waiter)
        try:
            return waiter.result(LONGEST)
        except TimeoutError:
            raise OutcomeUnknown from None

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection]:
        """Lend a read-only connection. Raises CommandNotDone while the store is not started."""
        if self._pool is None:
            raise CommandNotDone
        async with self._pool.connection() as connection:
            yield connection

    async def fetch(self, query: str, *params: Any) -> list[Row]:
        """Run a read and return its rows as tuples."""
        async with self.connection() as connection:
            cursor = await connection.execute(query.encode(), params)
            return await cursor.fetchall()

    async def get(self, table: Table[R], project_id: str, id: str) -> R | None:  # noqa: A002
        """Read one row by its key."""
        rows = await self.find(table, "t.project_id = %s and t.id = %s", project_id, id, limit=1)
        return rows[0] if rows else None

    async def find(
        self, table: Table[R], where: str, *params: Any, order_by: str = "", limit: int | None = None
    ) -> list[R]:
        """Read the rows for which `where` (SQL over alias t, parameters as %s) holds."""
        query = _select(table.name, where, order_by, limit)
        return [msgspec.json.decode(text, type=table.row) for (text,) in await self.fetch(query, *params)]

    def last_known(self, table: Table[R], project_id: str, id: str) -> R | None:  # noqa: A002
        """Return a row as this process last committed or loaded it; None when it knows nothing of it.

        Others may have changed it since: good for finding out what a command has to lock, never for an answer.
        """
        known = self.loop.last_known((project_id, id))
        return None if known is None else cast("R | None", known.rows.get(table.name))

    async def locate(self, table: Table[R], project_id: str, id: str) -> R | None:  # noqa: A002
        """Return a row as last known, or read it."""
        return self.last_known(table, project_id, id) or await self.get(table, project_id, id)

    async def now(self) -> int:
        """Return service_now() in epoch seconds."""
        [[seconds]] = await self.fetch(f"select {NOW_SECONDS}")
        return int(seconds)

    def pool_stats(self) -> dict[str, int]:
        """Return the pool's counters, for /metrics."""
        return {} if self._pool is None else self._pool.get_stats()


def _give_up(waiter: asyncio.Future[Outcome]) -> None:
    if not waiter.done():
        waiter.set_exception(OutcomeUnknown())


@cache
def _select(table: str, where: str, order_by: str, limit: int | None) -> str:
    query = f"select row_to_json(t)::text from {table} t where {where}"  # noqa: S608 - names come from declarations
    if order_by:
        query += f" order by {order_by}"
    if limit is not None:
        query += f" limit {limit}"
    return query


async def _configure_reader(connection: AsyncConnection) -> None:
    for setting in ("statement_timeout = '10s'", "default_transaction_read_only = on"):
        await connection.execute(f"set {setting}".encode())
