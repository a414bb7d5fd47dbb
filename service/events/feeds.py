"""Feeds: the newest events of what is followed, read once for all its readers in a process.

A feed keeps a few events in memory. A reader within them costs no read. One behind them reads pages of its own, in its
account's turn, until it has caught up. So a slow reader, and one from the beginning of a long history, hold up nobody.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import psycopg
import structlog
from psycopg_pool import PoolTimeout

from service.events.reads import EventSource, read_at
from service.eventstore.follow.follower import Follower
from service.eventstore.follow.listener import Listener
from service.eventstore.history.stored import StoredEvent
from service.eventstore.read.reader import Caller, reading_for
from service.eventstore.store import EventStore
from service.fairness.not_done import CommandNotDone
from service.fairness.turns import Turns

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
    event: StoredEvent


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

    def after(self, position: int) -> list[StoredEvent] | None:
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

    def _keep(self, event: StoredEvent) -> None:
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
