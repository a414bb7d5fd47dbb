"""Events of the log: pages of a project and of a stream, with what each says in a sentence."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from datetime import UTC
from functools import cache
from typing import Any, NamedTuple

import msgspec
import psycopg
import structlog
from psycopg_pool import PoolTimeout

from schemas.events import LoggedEvent
from service.eventstore.log.follower import Follower, Listener
from service.eventstore.read.reader import Caller, reading_for
from service.eventstore.read.stored import LogEvent
from service.eventstore.store import EventStore
from service.fairness.bounds import SHARE, FairBounds
from service.fairness.semaphore import FairSemaphore
from service.fairness.turns import CommandNotDone
from service.history.audit import envelope_of
from service.registry import machines
from service.sql import load_query
from statemachines.kernel.machine import Rejection
from statemachines.kernel.topics import schemas

# Reads of the log for one project: pages of a project, pages of a stream, and events at their positions.

PAGE_BYTES = 256 * 1024
"""Payloads in one page, which ends with the event that passes it. Queries guess it from the sizes in the table."""

_OF_PROJECT = load_query("events", "of_project")
_OF_PROJECT_BEFORE = load_query("events", "of_project_before")
_OF_STREAM = load_query("events", "of_stream")
_OF_STREAM_UNTIL = load_query("events", "of_stream_until")
_AT_POSITIONS = load_query("events", "at_positions")
_REVISION_AFTER = load_query("events", "revision_after")
_STREAM_OF_PERSON = load_query("events", "stream_of_person")


class EventSource(NamedTuple):
    """The events of a project, or of one of its streams."""

    project_id: str
    stream_id: str | None = None


class EventsRead(NamedTuple):
    """Some events in the order of the log, the position to go on after, the size of the log, and whether more follow.

    `more` is false at the end of the log, as far as the read saw it.
    """

    events: list[LogEvent]
    next_after: int
    log_size: int
    more: bool


async def find_stream(store: EventStore, stream_id: str, user_id: str) -> str | None:
    """Find the project of a stream among those of a person."""
    rows = await store.doors.fetch(_STREAM_OF_PERSON, stream_id=stream_id, user_id=user_id)
    return rows[0][0] if rows else None


async def read_page(store: EventStore, source: EventSource, after: int, limit: int) -> EventsRead:
    """Read the events after a position."""
    if source.stream_id is None:
        return await _of_project(store, source.project_id, after, limit)
    named = {"project_id": source.project_id, "stream_id": source.stream_id}
    [[revision]] = await store.fetch(_REVISION_AFTER, **named, after=after)
    rows = await store.fetch(_OF_STREAM, **named, revision=revision, limit=limit, bytes=PAGE_BYTES)
    events = _fitting([LogEvent._make(row[1:]) for row in rows if row[1] is not None])
    reached = events[-1].position if events else None
    return EventsRead(events, reached or after, rows[0][0], bool(events))


async def _of_project(store: EventStore, project_id: str, after: int, limit: int) -> EventsRead:
    rows = await store.fetch(_OF_PROJECT, project_id=project_id, after=after, limit=limit, bytes=PAGE_BYTES)
    size, matched = rows[0][:2]
    events = _fitting([LogEvent._make(row[2:]) for row in rows if matched])
    reached = events[-1].position if events and _was_cut(events, matched, limit) else None
    next_after = max(after, size) if reached is None else reached
    return EventsRead(events, next_after, size, next_after < size)


class EventsBefore(NamedTuple):
    """Some events in the order of the log, the position to look before next, if any, and the size of the log."""

    events: list[LogEvent]
    next_before: int | None
    log_size: int


async def read_before(store: EventStore, source: EventSource, before: int, limit: int) -> EventsBefore:
    """Read the last events before a position."""
    if source.stream_id is None:
        return await _of_project_before(store, source.project_id, before, limit)
    named = {"project_id": source.project_id, "stream_id": source.stream_id}
    [[revision]] = await store.fetch(_REVISION_AFTER, **named, after=before - 1)
    rows = await store.fetch(_OF_STREAM_UNTIL, **named, revision=revision, limit=limit, bytes=PAGE_BYTES)
    events = _fitting([LogEvent._make(row[1:]) for row in rows if row[1] is not None])[::-1]
    more = bool(events) and events[0].revision > 1
    return EventsBefore(events, events[0].position if more else None, rows[0][0])


async def _of_project_before(store: EventStore, project_id: str, before: int, limit: int) -> EventsBefore:
    rows = await store.fetch(_OF_PROJECT_BEFORE, project_id=project_id, before=before, limit=limit, bytes=PAGE_BYTES)
    size, matched = rows[0][:2]
    events = _fitting([LogEvent._make(row[2:]) for row in rows if matched])[::-1]
    more = bool(events) and _was_cut(events, matched, limit)
    first = any(event.stream_id == project_id and event.revision == 1 for event in events)
    return EventsBefore(events, events[0].position if more and not first else None, size)


async def read_at(store: EventStore, source: EventSource, positions: Sequence[int]) -> list[LogEvent]:
    """Read the events of a source at some positions."""
    rows = await store.fetch(_AT_POSITIONS, project_id=source.project_id, positions=list(positions))
    events = [LogEvent._make(row) for row in rows]
    return [event for event in events if source.stream_id in (None, event.stream_id)]


def _was_cut(events: Sequence[LogEvent], matched: int, limit: int) -> bool:
    """Whether there may be more than a page has: it is full, or what was found did not fit."""
    return len(events) < matched or matched >= limit


def _fitting(events: list[LogEvent]) -> list[LogEvent]:
    """Keep the events of one page, of those that a query guessed to be one."""
    size = 0
    for number, event in enumerate(events, 1):
        size += len(event.payload or "")
        if size >= PAGE_BYTES:
            return events[:number]
    return events


# What the events of this release hold: a JSON Schema of each topic, and an AsyncAPI document of the streams.

Json = dict[str, Any]

_NOT_THERE = frozenset({"$defs", "title", "discriminator"})
"""Words of JSON Schema with another meaning in AsyncAPI, or none."""

VERSION = "2026-11-26"


@cache
def topic_schemas() -> Json:
    """The JSON Schema of the payload of each topic, each whole in itself, by topic."""
    machines()  # It imports every module with topics.
    return {topic: _inlined(schema) for topic, schema in schemas().items()}


@cache
def asyncapi(base_url: str) -> bytes:
    """Write the AsyncAPI 3 document of the streams of events."""
    return msgspec.json.encode(_document(base_url))


def _document(base_url: str) -> Json:
    scheme, _, host = base_url.partition("://")
    messages = {topic: _message(topic) for topic in topic_schemas()}
    channels = {
        "projectEvents": _channel("/v1/projects/{project_id}/events", "The events of a project.", "project_id"),
        "streamEvents": _channel("/v1/streams/{stream_id}/events", "The events of one stream.", "stream_id"),
    }
    for channel in channels.values():
        channel["messages"] = {topic: {"$ref": f"#/components/messages/{topic}"} for topic in messages}
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Events of projects",
            "version": VERSION,
            "description": (
                "Server-sent events, in the order of the log. The id of each is its position. Send the last one as "
                "Last-Event-ID to go on after it."
            ),
            "license": {"name": "Apache License 2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {
            "service": {
                "host": host,
                "protocol": scheme,
                "security": [{"$ref": "#/components/securitySchemes/apiKey"}],
            }
        },
        "channels": channels,
        "operations": {
            f"follow{name[0].upper()}{name[1:]}": {
                "action": "receive",
                "channel": {"$ref": f"#/channels/{name}"},
                "summary": channel["summary"],
                "bindings": {"http": {"method": "GET", "bindingVersion": "0.3.0"}},
            }
            for name, channel in channels.items()
        },
        "components": {
            "messages": messages,
            "securitySchemes": {"apiKey": {"type": "http", "scheme": "bearer"}},
        },
    }


def _channel(address: str, summary: str, parameter: str) -> Json:
    return {
        "address": address,
        "summary": summary,
        "parameters": {parameter: {"description": "An id, as the API shows it."}},
        "messages": {},
    }


def _message(topic: str) -> Json:
    """One message: the whole event around the payload of the topic."""
    return {
        "name": topic,
        "contentType": "application/json",
        "payload": {
            "type": "object",
            "required": ["position", "project_id", "stream_id", "revision", "topic", "payload"],
            "properties": {
                "position": {"type": "integer", "minimum": 1},
                "project_id": {"type": "string"},
                "stream_id": {"type": "string"},
                "revision": {"type": "integer", "minimum": 1},
                "topic": {"const": topic},
                "payload": topic_schemas()[topic],
            },
        },
    }


def _inlined(schema: Json) -> Json:
    """A schema without references: within another document they would lead to the whole of it."""
    definitions = schema.get("$defs", {})

    def walk(part: Any, met: tuple[str, ...], *, names: bool = False) -> Any:
        if isinstance(part, list):
            return [walk(item, met) for item in part]
        if not isinstance(part, dict):
            return part
        if names:
            return {name: walk(value, met) for name, value in part.items()}
        if "$ref" in part:
            name = part["$ref"].rpartition("/")[2]
            return {} if name in met else walk(definitions[name], (*met, name))
        words = {key: value for key, value in part.items() if key not in _NOT_THERE}
        return {key: walk(value, met, names=key == "properties") for key, value in words.items()}

    found: Json = walk(schema, ())
    return found


# Events of the log as answers show them: with their whole envelope, or as CloudEvents 1.0 in the JSON format.

Encode = Callable[[LogEvent], bytes]

_NULL = msgspec.Raw(b"null")


def show_event(event: LogEvent) -> LoggedEvent:
    """Show one event with its hashes. An erased one has neither payload nor salt."""
    assert event.position is not None, "only numbered events are read"
    return LoggedEvent(
        **msgspec.structs.asdict(envelope_of(event)),
        position=event.position,
        erased=event.payload is None,
        payload=_NULL if event.payload is None else msgspec.Raw(event.payload.encode()),
        salt=None if event.salt is None else event.salt.hex(),
        leaf=event.leaf.hex(),
        chain=event.chain.hex(),
    )


def encode_event(event: LogEvent) -> bytes:
    """Write one event as a line of JSON."""
    return msgspec.json.encode(show_event(event))


def cloud_event(event: LogEvent, base_url: str) -> dict[str, Any]:
    """Show one event as a CloudEvent. Numbers of the log are strings: CloudEvents' integers have 32 bits."""
    assert event.position is not None, "only numbered events are read"
    return {
        "specversion": "1.0",
        "id": event.event_id,
        "source": f"{base_url}/v1/projects/{event.project_id}",
        "type": event.topic,
        "subject": event.stream_id,
        "time": event.recorded_at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "datacontenttype": "application/json",
        "dataschema": f"{base_url}/v1/events/schemas?topic={event.topic}",
        "position": str(event.position),
        "revision": str(event.revision),
        "actor": f"{event.actor_kind}:{event.actor_id}",
        "payloadhash": event.payload_hash.hex(),
        "leafhash": event.leaf.hex(),
        "erased": event.payload is None,
        "data": None if event.payload is None else msgspec.Raw(event.payload.encode()),
    }


def encode_cloud_event(base_url: str) -> Encode:
    """Make what writes one event as a CloudEvent."""
    return lambda event: msgspec.json.encode(cloud_event(event, base_url))


# Feeds: the newest events of what is followed, read once for all its readers in a process. A feed keeps a few events
# in memory. A reader within them costs no read. One behind them reads pages of its own, in its account's turn, until
# it has caught up. So a slow reader, and one from the beginning of a long history, hold up nobody.

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
        self.pages = FairSemaphore(
            FairBounds(SHARE.of(MOST_PAGES, least=2), per_tenant=SHARE.of(MOST_PAGES_OF_ACCOUNT)),
            waiting=MOST_WAITING,
        )
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
