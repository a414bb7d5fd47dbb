"""Reads of one process: a pool of connections that callers use in turn, each within the time that it has.

Whose reads they are is bound to the context, once for a request: every query that is made on its behalf, in whatever
area, then takes the caller's turn and the caller's time. What a process reads for itself has no caller; it takes no
turn and has a time of its own. A caller named NOBODY takes no turn either.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from contextvars import ContextVar
from functools import cache
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

import msgspec
import psycopg
from psycopg.pq import TransactionStatus
from psycopg_pool import AsyncConnectionPool

from projections.kernel import Table
from service.deadlines import Deadlines
from service.eventstore.connect.connection import IDLE_SECONDS, ReadingConnection, Values, has_ended, take_from
from service.eventstore.connect.hosts import CONNECT_SECONDS, NOTICE_SILENCE
from service.eventstore.declare.faults import is_loss
from service.fairness.bounds import FairBounds
from service.fairness.semaphore import FairSemaphore
from service.fairness.turns import CommandNotDone, ReadNotDone
from service.sql import Statement

R = TypeVar("R", bound=msgspec.Struct)
Row = tuple[Any, ...]
AsyncConnection = psycopg.AsyncConnection[Row]
Pool = AsyncConnectionPool[ReadingConnection]

POOL_TIMEOUT = 1.0  # seconds a read waits for a connection; then psycopg_pool.PoolTimeout, a 503
POOL_WAITING = 512
SHRINK_SECONDS = 5.0  # between two looks of the pool for a connection that was given back for good
START_SECONDS = 10.0  # that a start waits for its first connection
RECONNECT_SECONDS = 4.0  # a lost connection is tried again, less and less often; then the next read begins anew
OWN_SECONDS = 5.0  # what a process reads for itself takes at most, waiting included
REST = 1.0  # a tenant whose statement took long leaves the database to others for as long, while others read
TENANT_WAITING = 128  # reads of one tenant that wait for their turn; the in-flight bound of a credential is above it


_NO_TURN: AbstractAsyncContextManager[None] = nullcontext()


class Caller:
    """Who reads, and how many seconds all its reads together may still take, waiting included."""

    __slots__ = ("left", "tenant")

    def __init__(self, tenant: str, seconds: float) -> None:
        self.tenant = tenant
        self.left = seconds


_CALLER: ContextVar[Caller | None] = ContextVar("caller", default=None)


class Reading:
    """A block whose reads are a caller's; written out, for one is entered with every request."""

    __slots__ = ("_caller", "_token")

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def __enter__(self) -> None:
        self._token = _CALLER.set(self._caller)

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        _CALLER.reset(self._token)


def reading_for(caller: Caller) -> Reading:
    """Make the reads of a block those of a caller."""
    return Reading(caller)


def reads_for() -> str | None:
    """The tenant of the reads under way. None for the process's own."""
    caller = _CALLER.get()
    return None if caller is None else caller.tenant


def read_as(tenant: str) -> None:
    """Name the tenant of the reads under way, once it is known."""
    caller = _CALLER.get()
    if caller is not None:
        caller.tenant = tenant


class Reader:
    """A pool of at most `connections` read-only connections, of which one caller uses at most `per_tenant` at once.

    `rest` is for how long a tenant leaves them to others, in terms of how long its statement took. `settings` are set
    on each connection beside those of all.
    """

    def __init__(
        self,
        conninfo: str,
        application: str,
        *,
        connections: int,
        per_tenant: int,
        rest: float = REST,
        settings: Sequence[str] = (),
    ) -> None:
        self._conninfo = conninfo
        self._application = application
        self._connections = connections
        self._settings = settings
        self._turns = FairSemaphore(FairBounds(connections, per_tenant=per_tenant), waiting=TENANT_WAITING, rest=rest)
        self._deadlines = Deadlines()
        self._pool: Pool | None = None
        self._idle: list[tuple[ReadingConnection, float]] = []  # with the moments of their last use, in this order
        self._tidying: asyncio.TimerHandle | None = None
        self._late: set[asyncio.Task[None]] = set()  # connections whose statements are being ended
        self._asking = 0  # reads that wait for the pool

    async def start(self) -> None:
        """Open the pool. Raises psycopg_pool.PoolTimeout when there is no database."""
        self._pool = AsyncConnectionPool(
            self._conninfo,
            connection_class=ReadingConnection,
            min_size=0,
            max_size=self._connections,
            max_idle=SHRINK_SECONDS,
            max_waiting=POOL_WAITING,
            timeout=POOL_TIMEOUT,
            kwargs={
                "autocommit": True,
                "application_name": self._application,
                "prepare_threshold": 2,
                "connect_timeout": CONNECT_SECONDS,
                **NOTICE_SILENCE,
            },
            configure=self._configure,
            reconnect_timeout=RECONNECT_SECONDS,
            open=False,
        )
        await self._pool.open()
        await self._give_back(await self._pool.getconn(timeout=START_SECONDS))

    async def stop(self) -> None:
        """Close the pool."""
        if self._pool is not None:
            if self._late:
                await asyncio.wait(self._late)
            if self._tidying is not None:
                self._tidying.cancel()
            while self._idle:
                await self._pool.putconn(self._idle.pop()[0])
            await self._pool.close()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[ReadingConnection]:
        """Lend a connection. Raises CommandNotDone while it is not started, ReadNotDone when the time is over.

        A statement that is still running then is cancelled in the server too. Each statement is a transaction of its
        own, so nothing is left to end when the connection is given back.
        """
        caller = _CALLER.get()
        with _Time(self._deadlines, caller):
            async with self._turns.place(caller.tenant) if caller is not None and caller.tenant else _NO_TURN:
                connection = await self._take()
                try:
                    yield connection
                finally:
                    await self._give_back(connection)

    async def fetch(self, query: Statement, /, *places: Any, **named: Any) -> list[Row]:
        """Run a read and return its rows as tuples; its values by place or by name. Raises as `connection`."""
        return await self._fetch(query, named or places, prepare=None)

    async def fetch_planned(self, query: Statement, /, *places: Any, **named: Any) -> list[Row]:
        """Run a read that is planned for just these values, where the best plan depends on them. Raises as `fetch`."""
        return await self._fetch(query, named or places, prepare=False)

    async def _fetch(self, query: Statement, values: Values, *, prepare: bool | None) -> list[Row]:
        """Run a read, and once more on another connection when its own is lost: it changes nothing."""
        try:
            async with self.connection() as connection:
                return await connection.fetch(query, values, prepare=prepare)
        except psycopg.Error as error:
            if not is_loss(error):
                raise
        async with self.connection() as connection:
            return await connection.fetch(query, values, prepare=prepare)

    async def _configure(self, connection: AsyncConnection) -> None:
        for setting in ("statement_timeout = '10s'", "default_transaction_read_only = on", *self._settings):
            await connection.execute(f"set {setting}")

    async def _take(self) -> ReadingConnection:
        """Take the connection that was used last. Raises CommandNotDone, and what the pool raises.

        The pool lends them in turn, which wakes another process of the server each time, whose memory is the coldest.
        """
        if self._pool is None:
            raise CommandNotDone
        while self._idle:
            connection, _ = self._idle.pop()
            if not has_ended(connection):
                return connection
            await connection.close()
            await self._pool.putconn(connection)  # which makes another in its place
        self._asking += 1
        try:
            return await take_from(self._pool)
        finally:
            self._asking -= 1

    async def _give_back(self, connection: ReadingConnection) -> None:
        """Keep a connection for the next read. The pool has a broken one, and any while others wait or it is closed."""
        assert self._pool is not None
        if connection.ends:
            self._late.add(late := asyncio.get_running_loop().create_task(self._give_back_later(connection)))
            late.add_done_callback(self._late.discard)
            return
        fit = connection.pgconn.transaction_status == TransactionStatus.IDLE
        if fit and not self._asking and not self._pool.closed:
            self._idle.append((connection, asyncio.get_running_loop().time()))
            if self._tidying is None:
                self._tidying = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._tidy)
        else:
            await self._pool.putconn(connection)

    def _tidy(self) -> None:
        """Close what nobody has used for IDLE_SECONDS, and look again when the next one may be as old."""
        loop = asyncio.get_running_loop()
        self._tidying = None
        old = loop.time() - IDLE_SECONDS
        unused = [connection for connection, at in self._idle if at <= old]
        self._idle = [(connection, at) for connection, at in self._idle if at > old]
        for connection in unused:
            self._late.add(late := loop.create_task(self._close(connection)))
            late.add_done_callback(self._late.discard)
        if self._idle:
            self._tidying = loop.call_at(self._idle[0][1] + IDLE_SECONDS, self._tidy)

    async def _close(self, connection: ReadingConnection) -> None:
        assert self._pool is not None
        await self._pool.putconn(connection)

    async def _give_back_later(self, connection: ReadingConnection) -> None:
        await connection.ended()
        await self._give_back(connection)

    async def find(
        self, table: Table[R], where: str, *params: Any, order_by: str = "", limit: int | None = None
    ) -> list[R]:
        """Read the rows for which `where` (SQL over alias t, parameters as %s) holds. Raises as `connection`."""
        query = _select(table.name, where, order_by, limit)
        return [msgspec.json.decode(text, type=table.row) for (text,) in await self.fetch(query, *params)]

    @property
    def tenant(self) -> str:
        """Whose reads are under way; empty for what a process reads for itself."""
        return reads_for() or ""

    @property
    def waiting(self) -> int:
        """Reads that wait for their turn."""
        return self._turns.waiting


class _Time:
    """The time of a caller, or that of a read of the process's own, for a block. Raises ReadNotDone when it is over."""

    __slots__ = ("_began", "_caller", "_deadline")

    def __init__(self, deadlines: Deadlines, caller: Caller | None) -> None:
        self._caller = caller
        self._began = asyncio.get_running_loop().time()
        self._deadline = deadlines.at(self._began + (OWN_SECONDS if caller is None else caller.left))

    def __enter__(self) -> None:
        if self._caller is not None and self._caller.left <= 0:
            raise ReadNotDone
        self._deadline.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._caller is not None:
            self._caller.left -= asyncio.get_running_loop().time() - self._began
        try:
            self._deadline.__exit__(kind, error, trace)
        except TimeoutError:
            raise ReadNotDone from None
        if isinstance(error, TimeoutError):
            raise ReadNotDone from None


@cache
def _select(table: str, where: str, order_by: str, limit: int | None) -> str:
    query = f"select row_to_json(t)::text from {table} t where {where}"  # noqa: S608 - names come from declarations
    if order_by:
        query += f" order by {order_by}"
    if limit is not None:
        query += f" limit {limit}"
    return query


# Where a page of a list begins and ends: newest first, ties by id descending (G-005).


class PageEnd(NamedTuple):
    """Where a page ended: a time in epoch seconds and an id."""

    at: int
    id: str


END = PageEnd((1 << 53) - 1, "\U0010ffff")  # above every item: where the first page begins
