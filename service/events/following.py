"""Streams of events: a download up to the end of the log, and one to follow the log by."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
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
    store: EventStore, source: EventSource, after: int, authority: StreamAuthority, encode: Encode
) -> AsyncIterator[bytes]:
    """Give all events after a position as lines, up to the end that the log has at the first read.

    A reader who may no longer read gets a broken download.
    """
    end: int | None = None
    more = True
    while more:
        await authority.admit()
        page = await read_page(store, source, after, PAGE)
        end = page.log_size if end is None else end
        yield b"".join(encode(event) + b"\n" for event in page.events if (event.position or 0) <= end)
        after = page.next_after
        more = page.more and after < end


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
                if listener.heard != heard:
                    heard = listener.heard
                    if not await _admitted(authority):
                        return
                found, moved = feed.after(after), False
                if found is None:
                    page = await read_page(sources.store, source, after, PAGE)
                    found, moved = page.events, page.next_after > after
                    after = page.next_after
                elif found:
                    after = found[-1].position or after
                if found:
                    yield b"".join(_sent(event, encode) for event in found)
                elif moved:
                    yield f"id: {after}\n\n".encode()  # far on in the log, without any event of this source
                else:
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


def _sent(event: StoredEvent, encode: Encode) -> bytes:
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (event.position or 0, event.topic.encode(), encode(event))
