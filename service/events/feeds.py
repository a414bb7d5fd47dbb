"""Feeds: the newest events of what is followed, read once for all its readers in a process.

A feed keeps a few events in memory. A reader within them costs no read. One behind them reads pages of its own, in its
account's turn, until it has caught up. So a slow reader, and one from the beginning of a long history, hold up nobody.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from typing import NamedTuple

import psycopg
import structlog
from psycopg_pool import PoolTimeout

from service.events.event import Encode, EventSource, read_at, read_page
from service.eventstore.follow.follower import Follower, Listener
from service.eventstore.read.reader import Caller, reading_for
from service.eventstore.read.stored import LogEvent
from service.eventstore.store import EventStore
from service.fairness.turns import CommandNotDone, Turns
from statemachines.kernel.machine import Rejection

log = structlog.get_logger(__name__)

KEPT_EVENTS = 256
KEPT_BYTES = 64 * 1024
TOGETHER = 50  # positions of one read
READ_SECONDS = 2.0
MOST_PAGES = 64
MOST_PAGES_OF_ACCOUNT = 16
MOST_WAITING = 2000
AGAIN_SECONDS = 0.2


class FeedReader:
    """One reader of a feed: an event to wake it by."""

    __slots__ = ("account", "wake")

    def __init__(self, account: str) -> None:
        self.account = account
        self.wake = asyncio.Event()


class _Kept(NamedTuple):
    position: int
    size: int
    event: LogEvent


class Feed:
    """The newest events of one source, while somebody reads them.

    It has all of its events from `begin` on, up to `reached`.
    """

    def __init__(self, source: EventSource, store: EventStore) -> None:
        self.source = source
        self.begin = self.reached = 0
        self.readers: dict[FeedReader, None] = {}
        self._store = store
        self._kept: deque[_Kept] = deque()
        self._bytes = 0

    def after(self, position: int) -> list[LogEvent] | None:
        """The events after a position; None for one before those that are kept."""
        if position < self.begin:
            return None
        return [kept.event for kept in self._kept if kept.position > position]

    async def follow(self, listener: Listener) -> None:
        """Read on as the listener hears of positions, for ever."""
        while True:
            heard = listener.heard
            positions = listener.take()
            if positions is None:
                self._forget(listener.position)
            elif positions and not await self._read(positions):
                self._forget(positions[-1])
            for reader in self.readers:
                reader.wake.set()
            await listener.changed(heard)

    async def _read(self, positions: list[int]) -> bool:
        """Read events at positions. False when that failed, so that each reader reads for itself."""
        account = next(iter(self.readers)).account if self.readers else ""
        try:
            for start in range(0, len(positions), TOGETHER):
                with reading_for(Caller(account, READ_SECONDS)):
                    found = await read_at(self._store, self.source, positions[start : start + TOGETHER])
                for event in found:
                    self._keep(event)
        except (CommandNotDone, PoolTimeout, psycopg.Error) as error:
            log.warning("feed_interrupted", cause=type(error).__name__)
            return False
        return True

    def _keep(self, event: LogEvent) -> None:
        assert event.position is not None, "only numbered events are read"
        size = len(event.payload or "")
        self._kept.append(_Kept(event.position, size, event))
        self._bytes += size
        self.reached = event.position
        while len(self._kept) > KEPT_EVENTS or self._bytes > KEPT_BYTES:
            dropped = self._kept.popleft()
            self._bytes -= dropped.size
            self.begin = dropped.position

    def _forget(self, position: int) -> None:
        """Keep nothing up to a position: readers go on by pages of their own."""
        self._kept.clear()
        self._bytes = 0
        self.begin = self.reached = max(position, self.begin)


class Feeds:
    """The feeds of one process, each for as long as it has readers.

    `pages` are turns of readers behind their feed. One is held for a page from its read until its reader has it, so
    pages in memory have a bound, whatever the number of slow readers.
    """

    def __init__(self, store: EventStore, follower: Follower) -> None:
        self.pages = Turns(MOST_PAGES, MOST_PAGES_OF_ACCOUNT, MOST_WAITING)
        self._store = store
        self._follower = follower
        self._feeds: dict[EventSource, tuple[Feed, Listener, asyncio.Task[None]]] = {}

    def __len__(self) -> int:
        return len(self._feeds)

    async def open(self, source: EventSource, reader: FeedReader) -> Feed:
        """Begin to read a source. Raises ReadNotDone while the log cannot be read."""
        if source not in self._feeds:
            projects = (source.project_id,) if source.stream_id is None else ()
            streams = () if source.stream_id is None else (source.stream_id,)
            listener = await self._follower.listen(projects=projects, streams=streams, keeps=KEPT_EVENTS)
            if source in self._feeds:  # Another reader was faster.
                listener.close()
            else:
                feed = Feed(source, self._store)
                feed.begin = feed.reached = self._follower.position or 0
                self._feeds[source] = feed, listener, asyncio.create_task(feed.follow(listener))
        feed, _, _ = self._feeds[source]
        feed.readers[reader] = None
        return feed

    def close(self, source: EventSource, reader: FeedReader) -> None:
        """Read no more."""
        feed, listener, task = self._feeds[source]
        del feed.readers[reader]
        if not feed.readers:
            del self._feeds[source]
            listener.close()
            task.cancel()


@contextmanager
def reading(feeds: Feeds, source: EventSource, reader: FeedReader) -> Iterator[None]:
    """Close a reader after a block."""
    try:
        yield
    finally:
        feeds.close(source, reader)


# Streams of events: a download up to the end of the log, and one to follow the log by.

PAGE = 200
HEARTBEAT_SECONDS = 15.0
RETRY_MS = 1000
"""How long a client of server-sent events waits before it connects again."""
_NO_PLACE: AbstractAsyncContextManager[None] = nullcontext()


class StreamAuthority(NamedTuple):
    """Whether a stream may go on: `admit` raises once its reader may not, and `streams` are those that can end it."""

    admit: Callable[[], Awaitable[None]]
    streams: tuple[str, ...]
    account: str


class StreamParts(NamedTuple):
    """What streams of events are read from."""

    store: EventStore
    follower: Follower
    feeds: Feeds


async def download(
    sources: StreamParts, source: EventSource, after: int, authority: StreamAuthority, encode: Encode
) -> AsyncIterator[bytes]:
    """Give all events after a position as lines, up to the end that the log has at the first read.

    A reader who may no longer read gets a broken download.
    """
    end: int | None = None
    more = True
    while more:
        async with sources.feeds.pages.place(authority.account):
            await authority.admit()
            page = await read_page(sources.store, source, after, PAGE)
            end = page.log_size if end is None else end
            after = page.next_after
            more = page.more and after < end
            piece = b"".join(encode(event) + b"\n" for event in page.events if (event.position or 0) <= end)
            del page  # A slow reader keeps one copy, not two.
            yield piece


async def follow(
    sources: StreamParts, source: EventSource, after: int, authority: StreamAuthority, encode: Encode
) -> AsyncIterator[bytes]:
    """Give all events after a position as server-sent events, and go on with new ones.

    Ends once the reader may no longer read. Its authority is asked for anew when anything in it changes, and with each
    sign of life.
    """
    reader = FeedReader(authority.account)
    with await sources.follower.listen(streams=authority.streams, tell=reader.wake.set) as listener:
        feed = await sources.feeds.open(source, reader)
        with reading(sources.feeds, source, reader):
            yield f"retry: {RETRY_MS}\n\n".encode()
            heard = -1  # The authority may have ended before the listening began.
            while True:
                reader.wake.clear()
                behind = feed.after(after) is None
                async with sources.feeds.pages.place(authority.account) if behind else _NO_PLACE:
                    if listener.heard != heard:
                        heard = listener.heard
                        if not await _admitted(authority):
                            return
                    if behind:
                        page = await read_page(sources.store, source, after, PAGE)
                        piece = _written(page.events, encode)
                        if not piece and page.next_after > after:
                            piece = b"id: %d\n\n" % page.next_after  # far on, without any event of this source
                        after = page.next_after
                        del page  # A slow reader keeps one copy, not two.
                    else:
                        found = feed.after(after)
                        if found is None:  # It went on meanwhile.
                            continue
                        piece = _written(found, encode)
                        after = found[-1].position or after if found else after
                    if piece:
                        yield piece
                        continue
                try:
                    async with asyncio.timeout(HEARTBEAT_SECONDS):
                        await reader.wake.wait()
                except TimeoutError:
                    heard = -1
                    yield b": still there\n\n"


async def _admitted(authority: StreamAuthority) -> bool:
    try:
        await authority.admit()
    except Rejection:
        return False
    return True


def _written(events: Sequence[LogEvent], encode: Encode) -> bytes:
    """Write events as server-sent ones."""
    return b"".join(
        b"id: %d\nevent: %b\ndata: %b\n\n" % (event.position or 0, event.topic.encode(), encode(event))
        for event in events
    )
