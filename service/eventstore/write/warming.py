"""Loading heavy streams outside of the writing transaction, so that nobody's locks wait for somebody's history.

A round loads what is light; of a stream that is not (a large document, or a history without a snapshot) it says so.
Such a stream is loaded here, at some revision: its events never change, and the round that uses it checks the revision
under the lock and reads only what came after. What had to be replayed at length gets its snapshot on the way.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache as memoized
from queue import SimpleQueue
from typing import Any, NamedTuple

import msgspec
import psycopg
import structlog

from projections.kernel import Table
from service.eventstore.connect.connection import IDLE_SECONDS, Connection
from service.eventstore.declare.faults import StreamDamaged, StreamFault
from service.eventstore.read import statements
from service.eventstore.read.recorder import FencedRecorder
from service.eventstore.read.stored import StreamEvent
from service.eventstore.state.cache import NOTHING, KnownStream, StateCache, StreamMark, StreamName
from service.eventstore.state.loading import WritingSession, check_head, fold_tail
from service.eventstore.state.unit import Registry
from service.eventstore.write.writing import outgrown
from service.fairness.queue import FairQueue
from service.sql import Query, load_query
from statemachines.kernel.machine import Stream

log = structlog.get_logger()

PAGE_BYTES = 1024 * 1024
"""Bytes of payload after which a page of history is small again: a page is held in memory as a whole."""
SMALL_PAGE, LARGE_PAGE = 8, 1000

_encode = msgspec.json.Encoder().encode


class Wanted(NamedTuple):
    """A heavy stream, and the tenant on whose turn it is loaded."""

    stream: Stream
    tenant: str


class Warm(NamedTuple):
    """A stream as it was read, and the tables (name to oid) that its rows came from."""

    name: StreamName
    known: KnownStream
    tables: Mapping[str, int]


Found = Warm | StreamFault | None


_WHOLE = load_query("eventstore/statements", "whole_stream")
_ROW = load_query("eventstore/statements", "row_of_stream")


@memoized
def _stand(tables: tuple[Table[Any], ...]) -> Query:
    """Select everything of a stream but its events, in one statement: all of it stands at one revision."""
    rows = Query(b" ".join(_ROW.filled(table=table.name) for table in tables))
    return _WHOLE.filled(rows=rows)


def load_stream(connection: Connection, registry: Registry, stream: Stream) -> Warm | None:
    """Read a stream as it is now; None when it does not exist. No transaction may be open, and none is.

    Raises StreamFault when it cannot be read, and psycopg.Error.
    """
    machine = stream.machine
    tables = tuple(projection for projection in registry.inline.get(machine.kind, ()))
    row = connection.execute(_stand(tables), (machine.snapshot_version, *stream.name), prepare=True).fetchone()
    if row is None:
        return None
    head, chain, counted, start, start_counted, text, *shown = row
    read = sum(len(value) for value in (text, *shown[::2]) if value)
    rows = {
        t.name: value and msgspec.json.decode(value, type=t.row) for t, value in zip(tables, shown[::2], strict=True)
    }
    oids = {t.name: oid for t, oid in zip(tables, shown[1::2], strict=True)}
    snapshot = StreamMark(start or 0, 0 if start is None else start_counted)
    revision = snapshot.revision
    state = machine.initial if text is None else msgspec.json.decode(text, type=machine.state_type)
    for page in _pages(connection, stream, revision, head):
        read += sum(len(event.payload or "") for event in page)
        revision, state, _ = fold_tail(stream, revision, state, page)
    check_head(stream, revision, head)
    known = KnownStream(
        StreamMark(head, counted), bytes(chain), state, rows, NOTHING.grown(read, state, rows), snapshot
    )
    return Warm(stream.name, _keep_snapshot(connection, stream, known), oids)


def _pages(connection: Connection, stream: Stream, after: int, until: int) -> Iterator[Sequence[StreamEvent]]:
    """Read the events of a stream page by page, each of a bounded size."""
    recorder, size = FencedRecorder.over(connection), SMALL_PAGE
    while after < until:
        page = recorder.select_events(stream.id, project_id=stream.project_id, gt=after, lte=until, limit=size)
        if not page:
            return
        yield page
        after = page[-1].revision
        weight = sum(len(event.payload or "") for event in page)
        size = max(SMALL_PAGE, min(LARGE_PAGE, 2 * size, size * PAGE_BYTES // (weight + 1)))


def _keep_snapshot(connection: Connection, stream: Stream, known: KnownStream) -> KnownStream:
    """Store a snapshot where there should be one, unless somebody writes the stream: then that writer does."""
    if not outgrown(known.mark, known.snapshot):
        return known
    mark = StreamMark(known.revision, max(0, known.mark.bytes))
    state = _encode(known.state)
    values = (*stream.name, mark.revision, mark.bytes, stream.machine.snapshot_version, state.decode(), len(state))
    if connection.execute(statements.KEEP_SNAPSHOT, values, prepare=True).fetchone() is None:
        return known
    return msgspec.structs.replace(known, mark=mark, snapshot=mark)


def load_into(connection: Connection, registry: Registry, cache: StateCache, streams: Iterable[Stream]) -> None:
    """Load streams into a cache of this thread. Raises psycopg.Error."""
    for stream in streams:
        take_in(cache, stream.name, attempt(connection, registry, stream))


def attempt(connection: Connection, registry: Registry, stream: Stream) -> Found:
    """Load a stream; its fault if it has one. Raises psycopg.Error."""
    try:
        return load_stream(connection, registry, stream)
    except StreamFault as fault:
        return fault
    except psycopg.Error:
        raise
    except Exception as error:  # noqa: BLE001 - whatever is wrong with one stream is its own
        return StreamDamaged(stream, repr(error))


def take_in(cache: StateCache, name: StreamName, found: Found) -> None:
    """Put what was loaded where the next round finds it."""
    if isinstance(found, StreamFault):
        cache.faults[name] = found
    elif found is not None:
        cache.keeps_to(found.tables)
        cache.lend(found.name, found.known)


class Warmer:
    """A thread that loads heavy streams for a writer, which goes on with the others meanwhile; tenants in turn."""

    def __init__(self, conninfo: str, registry: Registry, application: str) -> None:
        self._session = WritingSession(conninfo, application)
        self._registry = registry
        self._wanted: FairQueue[Wanted] = FairQueue(lambda wanted: wanted.tenant)
        self._loaded: SimpleQueue[tuple[StreamName, Found]] = SimpleQueue()
        self._thread = threading.Thread(target=self._main, name=application, daemon=True)
        self.loading: set[StreamName] = set()
        """What was asked for and has not been delivered; belongs to the thread that asks."""

    def start(self) -> None:
        """Start the thread; its connection is opened with the first stream."""
        self._thread.start()

    def stop(self) -> None:
        """Let the thread end after the stream that it is at, and wait for it a moment."""
        self._wanted.close(drop=True)
        if self._thread.is_alive():
            self._thread.join(timeout=1)

    def ask(self, wanted: Iterable[Wanted]) -> None:
        """Have streams loaded, each once."""
        for heavy in wanted:
            if heavy.stream.name not in self.loading:
                self.loading.add(heavy.stream.name)
                self._wanted.put(heavy)

    def deliver(self, cache: StateCache) -> None:
        """Put what has been loaded into the cache."""
        while not self._loaded.empty():
            name, found = self._loaded.get()
            self.loading.discard(name)
            take_in(cache, name, found)

    def _main(self) -> None:
        while (wanted := self._wanted.get(self._session.rest, IDLE_SECONDS)) is not None:
            stream, found = wanted.stream, None
            try:
                found = attempt(self._session.open(), self._registry, stream)
            except psycopg.Error as error:  # Whoever waits asks again, as long as it has time.
                log.warning("stream_not_loaded", error=type(error).__name__)
                self._session.close()
            self._loaded.put((stream.name, found))
        self._session.close()
