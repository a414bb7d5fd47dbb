"""Connections, with every timeout that bounds what a stalled peer can hold and how long a silent server is heard."""

from __future__ import annotations

import asyncio
import mmap
import os
import select
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TypeVar, cast

import psycopg
import structlog
from psycopg import sql
from psycopg.abc import PQGen
from psycopg.generators import fetch, send
from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGresult
from psycopg.types.numeric import Int8Dumper
from psycopg.waiting import wait_async
from psycopg_pool import AsyncConnectionPool

from service.eventstore.connect.hosts import CONNECT_SECONDS, NOTICE_SILENCE, cut, hosts_of, watch_of
from service.eventstore.connect.pipeline import STALE, WENT_WELL, StatementPipeline, numbered
from service.sql import Statement

# Whether the database answers, as one process sees it: a line in the log when it stops, and one when it is back.
# Everything that talks to the database reports here instead of logging for itself: while it is gone, each request and
# each thread meets that again and again, and what an operator needs is when it began and how long it took.

log = structlog.get_logger()


class Outage:
    """Begins with the first connection that is lost or not made, and ends with the next one that is made.

    Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since: float | None = None

    @property
    def lasts(self) -> bool:
        """Whether the database was last found gone."""
        return self._since is not None

    def began(self, error: BaseException, **more: Any) -> None:
        """A connection was lost, found silent or not made; `more` goes into the line."""
        with self._lock:
            if self._since is not None:
                return
            self._since = time.monotonic()
        sqlstate = getattr(error, "sqlstate", None) or ""
        log.error("database_gone", error=type(error).__name__, sqlstate=sqlstate, **more)

    def ended(self) -> None:
        """A connection was made."""
        if self._since is None:
            return
        with self._lock:
            since, self._since = self._since, None
        if since is not None:
            log.warning("database_back", seconds=round(time.monotonic() - since, 1))


OUTAGE = Outage()
"""The one of this process, which has one database."""


Row = tuple[Any, ...]
Connection = psycopg.Connection[Row]
AsyncConnection = psycopg.AsyncConnection[Row]
AnyConnection = psycopg.BaseConnection[Row]
C = TypeVar("C", bound=psycopg.AsyncConnection[Any])
Values = Sequence[Any] | Mapping[str, Any]
"""What a statement's places stand for, `%s` in turn or `%(name)s` by name."""

IDLE_SECONDS = 20.0
"""A session that nobody has used for so long is closed: each is a process of the server, with megabytes of its own."""
KEPT_CURSORS = 50  # of a connection for reading
KEPT_TEXT = 4096  # characters of text that a kept cursor may hold
CANCEL_SECONDS = 0.7  # a server that has not ended a cancelled statement by then is stopped, or nobody hears it
TRANSACTION_TIMEOUT_FROM = 170000  # the first server version that has transaction_timeout


_IN_TRANSACTION = frozenset({TransactionStatus.INTRANS, TransactionStatus.INERROR})


class CommitInDoubt(psycopg.OperationalError):
    """The server warned at a COMMIT that it answered: no standby may have it, and a promotion may drop it (G-201).

    A wait for a synchronous standby that is cancelled ends so. The session is closed, as if it was lost.
    """


class _Warnings:
    """Hears the warnings of a session. One that comes as a transaction ends puts its commit in doubt."""

    def __init__(self) -> None:
        self._last = ""

    def hear(self, notice: psycopg.errors.Diagnostic) -> None:
        """Take in a notice of the server."""
        if notice.severity_nonlocalized == "WARNING":
            self._last = notice.message_primary or "a warning"

    def check(self, connection: AnyConnection) -> None:
        """Raise CommitInDoubt after an exchange that brought a warning, unless its transaction goes on."""
        if self._last:
            last, self._last = self._last, ""
            if connection.pgconn.transaction_status not in _IN_TRANSACTION:
                connection.pgconn.finish()
                raise CommitInDoubt(last)


class WritingConnection(psycopg.Connection[Row]):
    """A connection whose prepared statements go past the driver's cursors, which cost more than most statements do.

    One thread uses it, and it runs no template strings. `ended_by` is the SQLSTATE with which the server has ended the
    session. `listed`: it is one to a list of hosts, so what was read counts only after a commit of its own.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._together = StatementPipeline(self)
        # The driver prepares nothing itself: what it did not prepare it does not throw away after a ROLLBACK, which
        # would take along what was prepared here.
        self.prepare_threshold = None
        self.ended_by = ""
        self.listed = False
        self._warnings = _Warnings()
        # What the server says while nothing is asked of it comes as a notice; whoever asks next only finds the
        # connection closed.
        self.add_notice_handler(self._hear)

    def _hear(self, notice: psycopg.errors.Diagnostic) -> None:
        self._warnings.hear(notice)
        if notice.severity_nonlocalized in {"FATAL", "PANIC"}:
            self.ended_by = notice.sqlstate or ""

    def wait(self, *args: Any, **more: Any) -> Any:
        """Wait for an exchange. Raises CommitInDoubt."""
        found = super().wait(*args, **more)
        self._warnings.check(self)
        return found

    def execute(  # type: ignore[override]
        self, query: str | bytes | sql.SQL | sql.Composed, params: Values = (), *, prepare: bool = False
    ) -> psycopg.Cursor[Row]:
        """Run a statement. Raises psycopg.Error.

        One that is prepared is a text with places `%s`, and its answer, an `Answer`, has what callers use of a cursor.
        """
        if not prepare:
            return super().execute(query, params or None)
        assert not isinstance(query, sql.SQL | sql.Composed)
        assert not isinstance(params, Mapping)
        return cast("psycopg.Cursor[Row]", self._together.execute(query, params))

    def pipeline(self) -> StatementPipeline:  # type: ignore[override]
        """Open a block of prepared statements, which are sent at its end; their answers are there after it."""
        return self._together


class WatchedConnection(psycopg.AsyncConnection[Row]):
    """A connection for the event loop. Its commits are heard as those of WritingConnection, with the same members."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.listed = False
        self._warnings = _Warnings()
        self.add_notice_handler(self._warnings.hear)

    @classmethod
    async def connect(cls, conninfo: str = "", **more: Any) -> Self:
        """Open one. Raises psycopg.OperationalError."""
        watch = watch_of(conninfo)
        try:
            connection = await super().connect(conninfo if watch is None else watch.address(), **more)
        except psycopg.OperationalError as error:
            OUTAGE.began(error)
            raise
        connection.listed = bool(hosts_of(conninfo))
        if watch is not None:
            watch.add(connection)
        OUTAGE.ended()
        return connection

    async def wait(self, *args: Any, **more: Any) -> Any:
        """Wait for an exchange. Raises CommitInDoubt."""
        found = await super().wait(*args, **more)
        self._warnings.check(self)
        return found


class ReadingConnection(WatchedConnection):
    """A connection whose reader may be cancelled at any time, and has it back at once.

    The driver asks the server to end the statement and waits until it has: for up to ten seconds, when the server is
    stopped or the network is dead. Here such a connection is cut.
    """

    _ending: asyncio.Task[None] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._kept: dict[Statement, psycopg.AsyncCursor[Row]] = {}

    async def fetch(self, query: Statement, params: Values, *, prepare: bool | None) -> list[Row]:
        """Run a statement and return its rows; `prepare` as psycopg has it. Raises psycopg.Error.

        The cursor of a statement that brought back little is kept: to make one takes a quarter of its time. It holds
        on to its rows until it is used again, so one that brought back much is not.
        """
        cursor = self._kept.pop(query, None) or self.cursor()
        await cursor.execute(query, params, prepare=prepare)
        rows = await cursor.fetchall()
        size = sum(len(value) for row in rows for value in row if isinstance(value, str))
        if size < KEPT_TEXT and len(self._kept) < KEPT_CURSORS:
            self._kept[query] = cursor
        return rows

    async def wait(self, gen: Any, *args: Any, **more: Any) -> Any:
        """Wait for a statement. Whoever is cancelled goes at once, and the statement is ended behind them."""
        await self.ended()
        try:
            found = await wait_async(gen, self.pgconn.socket, *args, **more)
        except asyncio.CancelledError:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                self._ending = asyncio.get_running_loop().create_task(self._end(gen))
            raise
        self._warnings.check(self)
        return found

    async def ended(self) -> None:
        """Return when no statement is being ended any more."""
        if self._ending is not None:
            ending, self._ending = self._ending, None
            await ending

    @property
    def ends(self) -> bool:
        """Whether a statement is being ended."""
        return self._ending is not None

    async def _end(self, gen: Any) -> None:
        """Ask the server to end the statement that runs, and cut the connection unless it does so soon."""
        try:
            async with asyncio.timeout(CANCEL_SECONDS):
                await self.cancel_safe(timeout=CANCEL_SECONDS)
                await wait_async(gen, self.pgconn.socket)
        except (TimeoutError, OSError, psycopg.Error) as error:
            if not isinstance(error, psycopg.errors.QueryCanceled):
                OUTAGE.began(TimeoutError())
                cut(self)
                self.pgconn.finish()


def is_listed(connection: psycopg.BaseConnection[Any]) -> bool:
    """Whether a connection is one to a list of hosts: what it reads counts only after a commit of its own.

    Patroni changes without a restart which standbys there are, so each is taken to have a synchronous one.
    """
    return isinstance(connection, WritingConnection | WatchedConnection) and connection.listed


def has_ended(connection: AnyConnection) -> bool:
    """Whether the server has ended a session at rest, found out without a round trip.

    Such a session hears of nothing but its end and changed settings. After these a new one is no loss either.
    """
    news = select.poll()
    try:
        news.register(connection.fileno(), select.POLLIN)
    except (psycopg.Error, ValueError):
        return True
    return bool(news.poll(0))


async def take_from(pool: AsyncConnectionPool[C]) -> C:
    """Take a connection out of a pool, after the replacement of those with ended sessions. Raises as the pool.

    The pool's own check would rest after each of these, for longer than a read waits.
    """
    while has_ended(connection := await pool.getconn()):
        await connection.close()
        await pool.putconn(connection)
    return connection


def connect(conninfo: str, *, application: str, transaction_timeout_ms: int = 2000) -> Connection:
    """Open a connection for writing; `conninfo` is a libpq string or URL.

    Raises psycopg.OperationalError when the database is not there.
    """
    watch = watch_of(conninfo)
    try:
        address = conninfo if watch is None else watch.address()
        connection = WritingConnection.connect(address, **_options(application))
        if watch is not None:
            watch.add(connection)
        for statement in _adapt(connection, transaction_timeout_ms):
            connection.execute(statement)
        connection.listed = bool(hosts_of(conninfo))
    except psycopg.OperationalError as error:
        OUTAGE.began(error)
        raise
    OUTAGE.ended()
    return connection


async def connect_async(conninfo: str, *, application: str, transaction_timeout_ms: int = 2000) -> WatchedConnection:
    """Open such a connection for the event loop. Raises psycopg.OperationalError when the database is not there."""
    connection = await WatchedConnection.connect(conninfo, **_options(application))
    try:
        for statement in _adapt(connection, transaction_timeout_ms):
            await connection.execute(statement)
    except psycopg.OperationalError as error:
        OUTAGE.began(error)
        raise
    return connection


def _options(application: str) -> dict[str, Any]:
    return {"autocommit": True, "application_name": application, "connect_timeout": CONNECT_SECONDS, **NOTICE_SILENCE}


def _adapt(connection: AnyConnection, transaction_timeout_ms: int) -> list[sql.Composed]:
    """Set the driver's side of a connection for writing; returns the statements that set the server's side."""
    # Without this the type of an integer changes with its value, and statements are prepared again and again.
    connection.adapters.register_dumper(int, Int8Dumper)
    connection.prepared_max = None
    settings = {
        "default_transaction_isolation": "read committed",
        "statement_timeout": "3s",
        "lock_timeout": "1s",
        "idle_in_transaction_session_timeout": "1s",
        "client_connection_check_interval": "1s",
        # Statements are planned once, while the tables are small; these plans stay right when they are large.
        "plan_cache_mode": "force_generic_plan",
        "max_parallel_workers_per_gather": "0",
        "jit": "off",
        "enable_seqscan": "off",
        "enable_hashjoin": "off",
        "enable_mergejoin": "off",
    }
    if connection.info.server_version >= TRANSACTION_TIMEOUT_FROM:
        settings["transaction_timeout"] = f"{transaction_timeout_ms}ms"
    return [sql.SQL("set {} = {}").format(sql.Identifier(name), sql.Literal(value)) for name, value in settings.items()]


# Whether the database has room for what is written, as one process meets it: a line when it has not, one when it has.
# A write that finds no room fails with 53100, and is told so to its caller alone; the next one may fit, and the one
# after that not. So it lasts until no write has failed for a while. A process that writes nothing meets nothing: the
# processes of one service tell each other, by the time at which a file in the directory that they share was last
# touched.

QUIET_SECONDS = 10.0  # without a failed write; then there is room again
MARK = "disk_full"
NO_ROOM = (psycopg.errors.DiskFull, psycopg.errors.ReadOnlySqlTransaction)
"""A write without room, and one that the server refused before its disk had none (embedded/room.py)."""


class FullDisk:
    """Begins with a write that finds no room, and ends when none has for QUIET_SECONDS. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since: float | None = None
        self._last = 0.0
        self._mark: Path | None = None

    def share(self, directory: Path) -> None:
        """Tell the other processes that share a directory, and be told by them. It should not be on a disk."""
        self._mark = directory / MARK

    def tell_others(self) -> None:
        """Tell the processes that share the directory that there is no room now."""
        if self._mark is not None:
            with suppress(OSError):
                self._mark.touch()

    def met(self, error: BaseException | None) -> bool:
        """Look whether an error, or its cause, is one of the errors in NO_ROOM."""
        while error is not None and not isinstance(error, NO_ROOM):
            error = error.__cause__ or error.__context__
        if error is None:
            return False
        with self._lock:
            began = self._since is None
            self._last = time.monotonic()
            if began:
                self._since = self._last
        self.tell_others()
        if began:
            log.error("disk_full", sqlstate=error.sqlstate)
        return True

    @property
    def lasts(self) -> bool:
        """Whether writes of this process find no room; the first who asks after the end logs it."""
        if self._since is None:
            return False
        with self._lock:
            if self._since is None or time.monotonic() - self._last < QUIET_SECONDS:
                return self._since is not None
            seconds, self._since = self._last - self._since, None
        log.warning("disk_has_room", seconds=round(seconds, 1))
        return False

    @property
    def lasts_anywhere(self) -> bool:
        """Whether writes find no room in this process, or in another that shares its directory."""
        if self.lasts:
            return True
        if self._mark is not None:
            with suppress(OSError):
                return abs(time.time() - self._mark.stat().st_mtime) < QUIET_SECONDS
        return False


FULL_DISK = FullDisk()
"""The one of this process, which has one database."""


# How a commit wakes the worker, another process of the same service: a shared flag, and a pipe.
#
# The sequencer raises the flag, looks for events once more, and only then rests. So a commit either was there for that
# look or finds the flag and writes into the pipe. Whoever commits lowers the flag: of the commits in one rest, one pays
# for a write of one byte, and a busy log pays for nothing. A commit of another service on the same database, or
# of a command, rings nobody here. The sequencer finds it at its next look.
#
# The pipe is made before the processes part, because a NOTIFY would make all commits wait for each other.

_DOWN, _UP = 0, 1
_MOST = 4096  # bytes of one read: any number of rings is one


class Bell:
    """Silent until `hang`. Its process and those forked from it afterwards share it."""

    def __init__(self) -> None:
        self._flag: mmap.mmap | None = None
        self._pipe = (-1, -1)

    def hang(self) -> None:
        """Make the flag and the pipe, once, before the processes part."""
        if self._flag is None:
            self._pipe = os.pipe()
            os.set_blocking(self._pipe[1], False)
            self._flag = mmap.mmap(-1, 1)

    def ring(self) -> None:
        """Wake whoever rests, after a commit. Any thread may."""
        flag = self._flag
        if flag is not None and flag[0] == _UP:
            flag[0] = _DOWN
            with suppress(BlockingIOError):  # full of rings that nobody has heard yet
                os.write(self._pipe[1], b"\0")

    def expect(self) -> None:
        """Let the next commit ring."""
        if self._flag is not None:
            self._flag[0] = _UP

    def cover(self) -> None:
        """Let no commit ring."""
        if self._flag is not None:
            self._flag[0] = _DOWN

    def listen(self, heard: Callable[[], object]) -> None:
        """Call a function at each ring from now on, in a thread of its own that lasts as long as the process."""
        if self._flag is not None:
            threading.Thread(target=self._listen, args=(heard,), name="service-bell", daemon=True).start()

    def _listen(self, heard: Callable[[], object]) -> None:
        while os.read(self._pipe[0], _MOST):
            heard()


COMMITTED = Bell()
"""Rung after a commit with events, for the sequencer. A process and its copies have one database."""
RESENT = Bell()
"""Rung after deliveries to webhooks were queued again, for those who deliver."""


# One statement of the event loop, prepared once and run again and again, past the driver's cursors. The driver works
# out types and does the bookkeeping of a cursor: for a statement that brings back one value this cost the event loop
# more than to send the statement and to read its answer.


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
