"""Streams of events: a download up to the end of the log, and one to follow the log by."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import NamedTuple

from service.events.feeds import FeedReader, Feeds, reading
from service.events.reads import EventSource, read_page
from service.events.show import Encode
from service.eventstore.follow.follower import Follower
from service.eventstore.history.stored import StoredEvent
from service.eventstore.store import EventStore
from statemachines.kernel.machine import Rejection

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


def _written(events: Sequence[StoredEvent], encode: Encode) -> bytes:
    """Write events as server-sent ones."""
    return b"".join(
        b"id: %d\nevent: %b\ndata: %b\n\n" % (event.position or 0, event.topic.encode(), encode(event))
        for event in events
    )
