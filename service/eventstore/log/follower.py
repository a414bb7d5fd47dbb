"""The follower: reads the new positions of the log while somebody listens, and names the streams of each.

One connection and one task serve all listeners of an event loop. A listener keeps no queue, only its newest position.
So a slow one costs nothing and misses nothing. It reads the changes for itself.

An event is committed before it gets its position. So listen first, and read then: each change is in the read, or heard
afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import Self

import psycopg
import structlog

from service.eventstore.connect.connection import OUTAGE, ReadingConnection
from service.eventstore.connect.hosts import CONNECT_SECONDS, NOTICE_SILENCE
from service.fairness.turns import ReadNotDone
from service.sql import load_query

# One listener to streams of the log.


class Listener:
    """Hears of some streams and projects until it is closed.

    `heard` counts the changes among them from the beginning of the listening on. `position` is that of the newest one,
    0 before the first. A listener keeps as many positions as it `keeps` until they are taken. `tell` is called with
    each change.
    """

    __slots__ = (
        "_keeps",
        "_kept",
        "_leave",
        "_missed",
        "_tell",
        "_waiting",
        "heard",
        "position",
        "projects",
        "streams",
    )

    def __init__(
        self,
        streams: tuple[str, ...],
        projects: tuple[str, ...],
        leave: Callable[[Listener], None],
        *,
        keeps: int = 0,
        tell: Callable[[], None] | None = None,
    ) -> None:
        self.streams = streams
        self.projects = projects
        self.heard = 0
        self.position = 0
        self._leave = leave
        self._keeps = keeps
        self._kept: list[int] = []
        self._missed = False
        self._tell = tell
        self._waiting: asyncio.Future[None] | None = None

    def hear(self, position: int) -> None:
        """Note a change, and wake the waiting task."""
        self.position = position
        self.heard += 1
        if self._keeps:
            if len(self._kept) < self._keeps:
                self._kept.append(position)
            else:
                self._missed = True
        if self._tell is not None:
            self._tell()
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    def take(self) -> list[int] | None:
        """Take the kept positions. None when there were more than could be kept."""
        kept, self._kept = self._kept, []
        missed, self._missed = self._missed, False
        return None if missed else kept

    async def changed(self, after: int) -> None:
        """Wait for a change beyond so many of `heard`. One task at a time waits."""
        while self.heard == after:
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting

    def close(self) -> None:
        """Hear no more. A task still waiting waits in vain."""
        self._leave(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.close()


log = structlog.get_logger(__name__)

POLL = 0.02  # seconds between looks at the log
PAGE = 1000  # positions of one look
AGAIN_SECONDS = 0.2  # after the database was lost
ANSWER_SECONDS = 3.0  # a look that takes longer has met a server that stands still
READY_SECONDS = 1.0  # how long a listener waits for the first look
IDLE_SECONDS = 10.0  # after the last listener the connection is kept so long

_SIZE = load_query("eventstore", "log_size")
_NEW = load_query("eventstore", "streams_after")


class Follower:
    """One per process. Used from its event loop alone."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._connection: ReadingConnection | None = None
        self._task: asyncio.Task[None] | None = None
        self._position: int | None = None
        self._ready = asyncio.Event()
        self._wanted = asyncio.Event()
        self._of_streams: dict[str, set[Listener]] = {}
        self._of_projects: dict[str, set[Listener]] = {}
        self._listeners: set[Listener] = set()

    def start(self) -> None:
        """Start the task. It rests until somebody listens."""
        self._task = asyncio.create_task(self._follow(), name="follower")

    async def stop(self) -> None:
        """End the task, and close the connection."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await self._close()

    async def listen(
        self,
        *,
        streams: Iterable[str] = (),
        projects: Iterable[str] = (),
        keeps: int = 0,
        tell: Callable[[], None] | None = None,
    ) -> Listener:
        """Begin to hear of streams by their ids, and of everything in projects (or of a person, by the id).

        Use the result as a context manager, or close it. A read after the return is at least as new as the first
        position heard of. Raises ReadNotDone while the log cannot be read.
        """
        listener = Listener(tuple(streams), tuple(projects), self._leave, keeps=keeps, tell=tell)
        for names, index in ((listener.streams, self._of_streams), (listener.projects, self._of_projects)):
            for name in names:
                index.setdefault(name, set()).add(listener)
        self._listeners.add(listener)
        self._wanted.set()
        try:
            async with asyncio.timeout(READY_SECONDS):
                await self._ready.wait()
        except TimeoutError:
            listener.close()
            raise ReadNotDone from None
        except asyncio.CancelledError:
            listener.close()
            raise
        return listener

    @property
    def listeners(self) -> int:
        """How many listen."""
        return len(self._listeners)

    @property
    def position(self) -> int | None:
        """The position up to which the log was read; None while nobody listens."""
        return self._position

    def _leave(self, listener: Listener) -> None:
        for names, index in ((listener.streams, self._of_streams), (listener.projects, self._of_projects)):
            for name in names:
                if (heard := index.get(name)) is not None:
                    heard.discard(listener)
                    if not heard:
                        del index[name]
        self._listeners.discard(listener)
        if not self._listeners:
            self._wanted.clear()

    async def _follow(self) -> None:
        while True:
            try:
                rest = await self._look() if await self._is_wanted() else 0.0
            except (psycopg.Error, OSError, TimeoutError) as error:
                OUTAGE.began(error)
                await self._close()
                rest = AGAIN_SECONDS
            except Exception:
                log.exception("follower_failed")
                await self._close()
                rest = AGAIN_SECONDS
            await asyncio.sleep(rest)

    async def _is_wanted(self) -> bool:
        """Wait until somebody listens. Lets the connection go when nobody has for a while."""
        if self._wanted.is_set():
            return True
        try:
            async with asyncio.timeout(IDLE_SECONDS):
                await self._wanted.wait()
        except TimeoutError:
            self._ready.clear()
            self._position = None
            await self._close()
            await self._wanted.wait()
        return True

    async def _look(self) -> float:
        """Tell of one page of new positions. Returns the seconds to rest."""
        connection = self._connection or await self._open()
        assert self._position is not None
        async with asyncio.timeout(ANSWER_SECONDS):
            rows = await connection.fetch(_NEW, (self._position, PAGE), prepare=True)
        self._tell(rows)
        return 0.0 if len(rows) == PAGE else POLL

    def _tell(self, rows: list[tuple[int, str, str]]) -> None:
        for position, project_id, stream_id in rows:
            for listener in self._of_streams.get(stream_id, ()):
                listener.hear(position)
            for listener in self._of_projects.get(project_id, ()):
                listener.hear(position)
            self._position = position

    async def _open(self) -> ReadingConnection:
        """Connect, and find out from where to tell: the end of the log, or where the last connection was lost.

        A log that is shorter than before is another one, such as a restored backup: everybody looks anew.
        """
        async with asyncio.timeout(ANSWER_SECONDS):
            connection = await ReadingConnection.connect(
                self._conninfo,
                autocommit=True,
                application_name="service-follower",
                connect_timeout=CONNECT_SECONDS,
                **NOTICE_SILENCE,
            )
            self._connection = connection
            for setting in ("statement_timeout = '3s'", "default_transaction_read_only = on", "jit = off"):
                await connection.execute(f"set {setting}")
            [[size]] = await connection.fetch(_SIZE, (), prepare=True)
        if self._position is not None and size < self._position:
            for listener in self._listeners:
                listener.hear(size)
        if self._position is None or size < self._position:
            self._position = size
        self._ready.set()
        return connection

    async def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error, OSError):
                await connection.close()
