"""Making an archive: all that is stored of a project, read in one snapshot and written part by part.

Rows come a few at once, and each few is written in a thread that all archives of a process share. Between two of them
others have the database and the processor. Each row tells the sizes of the next, so a few are bounded in bytes before
they are read.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import time
from array import array
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, islice
from typing import Any, TypeVar

import msgspec
import psycopg

from projections.runs import RunRow
from service.archives.spool import ArchiveFull, ArchivePart, LinesInParts, Spool
from service.eventstore.read.stored import LogEvent, canonical, exported
from service.history.bundle import StreamBundle, read_bundle
from service.packing import unpack
from service.runs import verifying
from service.sql import Query, load_query
from service.tlog import tree
from service.tlog.hashing import Span, spans_beside

# What an archive says of itself: its parts with their hashes, its place in the log, and what it leaves out.

FORMAT = "service-archive-2"
WITHHELD = (
    "credential.created",
    "project.created",
    "project.dsn_rotated",
    "publication.published",
    "project.public_dsn_rotated",
)
"""Events whose payload holds the hash of a secret, by their topics without version."""

LEFT_OUT = (
    ("secrets and their hashes", "Nobody but their holder needs them. The payloads of events that hold one are null."),
    ("proof markers", "They only tell an onboarding's own records apart."),
    ("people of cases", "The errors name them."),
    ("source maps and uploads", "You have the originals."),
    ("usage, rate counters and answers kept for repeated requests", "The service alone needs them."),
    ("telemetry that was deleted", "What retention or a deletion removed is gone."),
)
"""The contents of the database that no archive has, and why."""


@dataclass(slots=True)
class Contents:
    """The findings of an archive on its way. `stored` counts the project's events, also those without a position."""

    project_id: str
    made_at: int = 0
    log_size: int = 0
    stored: int = 0
    positions: array[int] = field(default_factory=lambda: array("q"))
    withheld: int = 0
    checkpoint: tree.KeptCheckpoint | None = None
    cut_short: list[str] = field(default_factory=list)


def is_withheld(topic: str) -> bool:
    """Whether the payload of an event stays here."""
    return topic.rpartition(".")[0] in WITHHELD


def manifest(contents: Contents, parts: Sequence[ArchivePart]) -> bytes:
    """Write the manifest in canonical form. Its own hash is that of the rest of it."""
    positions, checkpoint = contents.positions, contents.checkpoint
    left_out = [{"what": what, "why": why} for what, why in LEFT_OUT]
    if newer := contents.stored - len(positions):
        left_out.append({"what": f"{newer} events without a position", "why": "They were recorded a moment before."})
    left_out += [
        {"what": f"the rest of {name}", "why": "An archive has a largest size. Delete telemetry, or read it by pages."}
        for name in contents.cut_short
    ]
    told: dict[str, Any] = {
        "format": FORMAT,
        "project_id": contents.project_id,
        "made_at": contents.made_at,
        "log_size": contents.log_size,
        "events": len(positions),
        "first_position": positions[0] if positions else None,
        "last_position": positions[-1] if positions else None,
        "checkpoint": None
        if checkpoint is None
        else {"origin": checkpoint.origin, "size": checkpoint.size, "root": checkpoint.root.hex()},
        "withheld": {"payloads": contents.withheld, "topics": list(WITHHELD)},
        "parts": [part._asdict() for part in parts],
        "left_out": left_out,
    }
    return canonical(told | {"manifest_sha256": hashlib.sha256(canonical(told)).hexdigest()})


T = TypeVar("T")
Row = tuple[Any, ...]
Connection = psycopg.AsyncConnection[Row]
Work = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Carries a piece of work out apart from the event loop."""
Pin = Callable[[tree.KeptCheckpoint], Awaitable[Any]]
"""Keeps a checkpoint for ever."""
Turn = Callable[[], AbstractAsyncContextManager[Any]]
"""A turn to read some rows."""

PART_BYTES = 64 << 20
MANIFEST_BYTES = 16 << 20
FEW_BYTES = 256 << 10
"""Bytes of the rows that are read at once at most. A row that is larger is read by itself."""
MOST_ROWS = 16
"""Rows that are read at once at most, and whose sizes a row tells."""
REST = 0.5
"""How long is rested after some rows, as a multiple of the time they took."""
SPANS = 256
SIGNED_SECONDS = 2.0
LOOK_SECONDS = 0.05
SETTINGS = (
    "default_transaction_read_only = on",
    "statement_timeout = '120s'",
    "idle_in_transaction_session_timeout = '300s'",  # between two turns
    "jit = off",
    "max_parallel_workers_per_gather = 0",
    "enable_seqscan = off",
    "work_mem = '64MB'",  # room for MOST_ROWS of the largest: beyond it the database would write all rows to its disk
)

_WEIGHED = load_query("archives", "weighed")
_LOG_SIZE = load_query("archives", "log_size")
_MOMENT = load_query("archives", "moment")
_EVENTS = load_query("archives", "events")
_RUNS = load_query("archives", "runs")
_CASES = load_query("archives", "cases")
_COMMENTS = load_query("archives", "comments")
_AGENT_RUNS = load_query("archives", "agent_runs")
_REPORTS = load_query("archives", "reports")
_ERRORS = load_query("archives", "errors")
_ANALYTICS = load_query("archives", "analytics")
_DEPLOYS = load_query("archives", "deploys")
_PEOPLE = load_query("archives", "people")
_FEEDBACK = load_query("archives", "feedback")


async def make(connection: Connection, project_id: str, spool: Spool, work: Work, pin: Pin, turn: Turn) -> None:
    """Make the archive of a project, with a turn for each read of rows.

    Raises psycopg.Error, ArchiveFull where even what is no telemetry is too much, DiskNearlyFull, and OSError of the
    disk.
    """
    for setting in SETTINGS:
        await connection.execute(f"set {setting}")
    await _await_signature(connection)
    contents = Contents(project_id)
    maker = _Maker(connection, spool, work, contents, turn)
    async with connection.transaction():
        await connection.execute("set transaction isolation level repeatable read, read only")
        [[contents.made_at, contents.log_size, contents.stored]] = await maker.fetch(_MOMENT)
        contents.checkpoint = await tree.newest(connection)
        if contents.checkpoint is not None:
            await pin(contents.checkpoint)
        spool.modified_at = contents.made_at
        await maker.write("events", _EVENTS, maker.event)
        await maker.prove()
        await maker.prove_runs()
        await maker.write("cases", _CASES, _line)
        await maker.write("case_comments", _COMMENTS, _line)
        await maker.write("case_runs", _AGENT_RUNS, _line)
        await maker.write("reports", _REPORTS, _line)
        for name, query, encode in (
            ("telemetry/deploys", _DEPLOYS, _line),
            ("telemetry/errors", _ERRORS, _error),
            ("telemetry/analytics", _ANALYTICS, _line),
            ("telemetry/people", _PEOPLE, _line),
            ("telemetry/feedback", _FEEDBACK, _line),
        ):
            await maker.write(name, query, encode, may_stop=True)
    spool.most += MANIFEST_BYTES
    await work(partial(_finish, spool, contents))


async def _await_signature(connection: Connection) -> None:
    """Wait a moment for a checkpoint over all that is in the log by now."""
    until = time.monotonic() + SIGNED_SECONDS
    [[size]] = await (await connection.execute(_LOG_SIZE)).fetchall()
    while time.monotonic() < until:
        newest = await tree.newest(connection)
        if newest is not None and newest.size >= size:
            return
        await asyncio.sleep(LOOK_SECONDS)


class _Maker:
    """Reads on one connection, and writes apart."""

    def __init__(self, connection: Connection, spool: Spool, work: Work, contents: Contents, turn: Turn) -> None:
        self._connection = connection
        self._spool = spool
        self._work = work
        self._contents = contents
        self._turn = turn
        self._of_project = {"project_id": contents.project_id}

    async def fetch(self, query: Query) -> list[Row]:
        """Read all rows."""
        return await (await self._connection.execute(query, self._of_project)).fetchall()

    async def rows(self, query: Query) -> AsyncGenerator[list[Row]]:
        """Read rows, at most FEW_BYTES or one at once, and rest in between."""
        count = 1
        async with self._connection.cursor(name="archive") as cursor:
            async with self._turn():
                await cursor.execute(_WEIGHED.filled(query=query, most=MOST_ROWS), self._of_project)
            while True:
                async with self._turn():
                    began = time.monotonic()
                    found = await cursor.fetchmany(count)
                if not found:
                    return
                yield [row[:-2] for row in found]
                count = max(1, sum(weight <= FEW_BYTES for weight in accumulate(found[-1][-1])))
                await asyncio.sleep(REST * (time.monotonic() - began))

    async def write(self, name: str, query: Query, encode: Callable[[Row], bytes], *, may_stop: bool = False) -> None:
        """Write the rows of a query as lines. With `may_stop`, they end where the archive is full."""
        parts = LinesInParts(self._spool, name, PART_BYTES)
        try:
            async with aclosing(self.rows(query)) as found:
                async for rows in found:
                    await self._work(partial(parts.write, _encoded(encode, rows)))
        except ArchiveFull:
            if not may_stop:
                raise
            self._contents.cut_short.append(name)
        await self._work(parts.end)

    def event(self, row: Row) -> bytes:
        """Write an event as exports have it. Secrets' hashes stay here, and so do the payloads that hold them."""
        event = LogEvent._make(row)
        position = event.position
        assert position is not None, "only numbered events are read"
        if is_withheld(event.topic):
            event = event._replace(payload=None, salt=None)
            self._contents.withheld += 1
        self._contents.positions.append(position)
        return canonical(exported(event)) + b"\n"

    async def prove(self) -> None:
        """Write the checkpoint, and the hashes by which all events together are proven to be in its tree."""
        checkpoint = self._contents.checkpoint
        if checkpoint is None:
            return
        await self._work(partial(self._spool.add, "checkpoint", checkpoint.text.encode()))
        indexes = array("q", (place - 1 for place in self._contents.positions if place <= checkpoint.size))
        parts = LinesInParts(self._spool, "proofs/tree", PART_BYTES, "txt")
        spans = spans_beside(indexes, checkpoint.size)
        while some := await self._work(partial(_some, spans)):
            wanted = tree.want(some, checkpoint.size)
            async with self._turn():
                found = await (await self._connection.execute(tree.TILES, wanted.values)).fetchall()
            await self._work(partial(_write_hashes, parts, wanted, found))
        await self._work(parts.end)

    async def prove_runs(self) -> None:
        """Write the proof of each run, as the service shows it."""
        async with aclosing(self.rows(_RUNS)) as found:
            async for rows in found:
                for (text,) in rows:
                    row = msgspec.json.decode(text, type=RunRow)
                    async with self._turn():
                        read = await read_bundle(self._connection, verifying.chain_of(row))
                    await self._prove_run(row, read)

    async def _prove_run(self, row: RunRow, read: StreamBundle) -> None:
        positions = {event.position for stream in read.streams for event in stream.events if event.position is not None}
        checkpoint = self._contents.checkpoint
        proven = None if checkpoint is None else await tree.prove(self._connection, positions, checkpoint)

        def write() -> None:
            document = verifying.seal(row, read, proven, made_at=self._contents.made_at)
            self._spool.add(f"proofs/{row.id}.json", msgspec.json.encode(document))

        await self._work(write)


def _some(spans: Iterable[Span]) -> list[Span]:
    return list(islice(spans, SPANS))


def _write_hashes(parts: LinesInParts, wanted: tree.WantedHashes, rows: Sequence[Row]) -> None:
    parts.write(base64.b64encode(one) + b"\n" for one in wanted.hashes(rows))


def _encoded(encode: Callable[[Row], bytes], rows: Iterable[Row]) -> Iterable[bytes]:
    """Encode lazily: it happens where the lines are written."""
    return map(encode, rows)


def _line(row: Row) -> bytes:
    return bytes(row[0].encode()) + b"\n"


def _error(row: Row) -> bytes:
    text, packed = row
    if packed is None:
        return _line(row)
    return msgspec.json.encode(msgspec.json.decode(text) | {"extra": unpack(packed)}) + b"\n"


def _finish(spool: Spool, contents: Contents) -> None:
    spool.add("manifest.json", manifest(contents, spool.parts))
    spool.finish()


# Counts of archives in one process: outcomes, seconds and bytes.

MADE, BROKEN, GIVEN_UP = "made", "broken", "given_up"


class ArchiveCounts:
    """Counts, taken when the making of an archive ends.

    A whole file is MADE, even without a reader to the end. After an error it is BROKEN, and without a reader GIVEN_UP.
    """

    def __init__(self) -> None:
        self.ended = Counter({MADE: 0, BROKEN: 0, GIVEN_UP: 0})
        self.seconds = 0.0
        self.bytes = 0

    @contextmanager
    def counting(self, spool: Spool) -> Iterator[None]:
        """Count an archive around its making."""
        began, outcome = time.monotonic(), BROKEN
        try:
            yield
            outcome = MADE
        except asyncio.CancelledError:
            outcome = GIVEN_UP
            raise
        finally:
            self.ended[outcome] += 1
            self.seconds += time.monotonic() - began
            self.bytes += spool.size
