"""Bundles: the full history of a few streams, read at one moment, in the form that is checked without the service.

A bundle shows each event as its hashes were made of it, each stream up to its head, and the links between streams:
members of payloads that name another stream of the bundle. scripts/verify_proof.py checks all three on its own.
"""

import hashlib
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec
import psycopg

from schemas.runs.proof import ProofEvent, ProofHead, ProofLink, ProofStream
from service.eventstore.read.reader import AsyncConnection
from service.eventstore.read.stored import LogEvent
from service.eventstore.store import EventStore
from service.history.audit import envelope_of
from service.sql import load_query

StreamName = tuple[str, str]
"""Project id and stream id."""

NAMING = frozenset(
    {"receipt_id", "claim_id", "run_id", "automation_run_id", "approval_id", "grant_id", "deploy_id", "report_id"}
)
"""Members that name a stream, wherever in a payload they stand."""
NAMING_LISTS = frozenset({"expired", "cancelled"})
"""Members that list streams: the requests whose lapse ended a review."""

_HEADS = load_query("history", "heads_asked")
_EVENTS = load_query("history", "events_asked")


class StreamMissing(LookupError):
    """A stream of the bundle has no event."""


class StreamBundle(NamedTuple):
    """The streams in the order in which they were asked for, and the links between them."""

    streams: list[ProofStream]
    links: list[ProofLink]


@asynccontextmanager
async def snapshot(store: EventStore) -> AsyncIterator[AsyncConnection]:
    """Lend a connection on which every statement sees the database as of the first one."""
    async with store.connection() as connection, connection.transaction():
        await connection.execute("set transaction isolation level repeatable read, read only")
        yield connection


async def bundle(store: EventStore, streams: Sequence[StreamName]) -> StreamBundle:
    """Read streams, each named once, as they stand at one moment.

    Raises StreamMissing for one without events.
    """
    async with snapshot(store) as connection:
        return await read_bundle(connection, streams)


async def read_bundle(connection: AsyncConnection, streams: Sequence[StreamName]) -> StreamBundle:
    """Read streams within a snapshot. Raises StreamMissing for one without events."""
    names = ([project_id for project_id, _ in streams], [stream_id for _, stream_id in streams])
    heads = await (await connection.execute(_HEADS, names)).fetchall()
    rows = await (await connection.execute(_EVENTS, names)).fetchall()
    events: dict[StreamName, list[ProofEvent]] = {name: [] for name in streams}
    for row in rows:
        event = LogEvent._make(row)
        events[event.project_id, event.stream_id].append(_show(event))
    if len(heads) < len(streams):
        raise StreamMissing(sorted(set(streams) - {(project_id, stream_id) for project_id, stream_id, *_ in heads}))
    shown = [
        ProofStream(project_id, stream_id, kind, ProofHead(revision, chain.hex()), events[project_id, stream_id])
        for project_id, stream_id, kind, revision, chain in heads
    ]
    return StreamBundle(shown, list(_links(shown)))


def _show(event: LogEvent) -> ProofEvent:
    """Lay an event out as its hashes were made of it."""
    assert event.payload is not None, "erased events belong to deleted projects, which nobody can read"
    assert event.salt is not None, "payload and salt are erased together"
    return ProofEvent(
        **msgspec.structs.asdict(envelope_of(event)),
        position=event.position,
        payload=msgspec.json.decode(event.payload),
        salt=event.salt.hex(),
        leaf=event.leaf.hex(),
        chain=event.chain.hex(),
    )


def _links(streams: Sequence[ProofStream]) -> Iterator[ProofLink]:
    known = {stream.stream_id for stream in streams}
    for stream in streams:
        for event in stream.events:
            for member, named in names_in(event.payload):
                if named in known and named != stream.stream_id:
                    yield ProofLink(stream.stream_id, event.revision, member, named)


def names_in(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Find every member that names a stream: its path (`deploy.deploy_id`, `expired.0`) and the name."""
    members: Iterable[tuple[str, Any]] = ()
    if isinstance(value, dict):
        members = sorted(value.items())
    elif isinstance(value, list):
        members = ((str(index), item) for index, item in enumerate(value))
    for name, item in members:
        inside = f"{path}.{name}" if path else name
        if name in NAMING and isinstance(item, str):
            yield inside, item
        elif name in NAMING_LISTS and isinstance(item, list):
            yield from ((f"{inside}.{index}", named) for index, named in enumerate(item))
        else:
            yield from names_in(item, inside)


# How far a log goes, in one line: what a copy of it is compared by.

_COUNTS = load_query("history", "counts")
_EXTENT_HEADS = load_query("history", "heads_in_order")


class Extent(NamedTuple):
    """The events, the size of the numbered log, and the streams with one hash over all of their heads.

    The hash is SHA-256, in hex, over a line `project_id stream_id revision chain` for each stream, sorted. Each chain
    covers all events of its stream, so that two logs with one hash hold the same events.
    """

    events: int
    size: int
    streams: int
    heads: str

    def __str__(self) -> str:
        return f"{self.events} events, {self.size} of them numbered; {self.streams} streams, heads sha256:{self.heads}"


def read_extent(connection: psycopg.Connection[Any]) -> Extent:
    """Read the extent of a database's log, as of the connection's snapshot when it is in a transaction."""
    [[events, size]] = connection.execute(_COUNTS).fetchall()
    with connection.transaction(), connection.cursor("heads") as cursor:
        streams, heads = hash_heads(" ".join(map(str, row)) for row in cursor.execute(_EXTENT_HEADS))
    return Extent(events, size, streams, heads)


def hash_heads(lines: Iterable[str]) -> tuple[int, str]:
    """Count sorted heads and hash them: `project_id stream_id revision chain`, the chain in hex."""
    digest, count = hashlib.sha256(), 0
    for line in lines:
        digest.update(line.encode() + b"\n")
        count += 1
    return count, digest.hexdigest()
