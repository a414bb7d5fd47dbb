"""Folding history into rows, stream by stream, in constant memory: what rebuild and verify share."""

import gc
import hashlib
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psycopg

import projections
import schemas
import statemachines
from projections.kernel import AnyProjection
from service.eventstore.read.recorder import FencedRecorder
from service.eventstore.read.stored import MAPPER, StreamEvent, canonical
from service.eventstore.state.cache import StreamName
from service.sql import load_query
from statemachines.kernel.topics import UnknownTopic, known_topics

PAGE = 5_000  # events read at a time
_MODULUS = 1 << 256

_NEWER = load_query("history", "newer")


class Folded(NamedTuple):
    """One stream folded to its end: its name, its row (None: it has none), how many events that took.

    A stream that holds an event of a later release is not folded: it has no row here, and is `newer`. Neither is one
    that cannot be, where that was asked for: it is `broken`.
    """

    name: StreamName
    row: Any
    events: int
    newer: bool = False
    broken: bool = False


class RowDigest:
    """A digest of a set of rows that does not depend on their order: the sum of the rows' hashes.

    Adding and removing rows keeps it current, so that no scan is needed while a swap holds its lock.
    """

    def __init__(self, value: int = 0) -> None:
        self.value = value

    def add(self, row: Any) -> None:
        """Count a row in."""
        self.value = (self.value + _row_number(row)) % _MODULUS

    def remove(self, row: Any) -> None:
        """Count a row out."""
        self.value = (self.value - _row_number(row)) % _MODULUS

    @property
    def hex(self) -> str:
        """Return it as 64 hex digits."""
        return f"{self.value:064x}"


def _row_number(row: Any) -> int:
    return int.from_bytes(hashlib.sha256(canonical(row)).digest(), "big")


def keep_to_the_index(connection: psycopg.Connection[Any]) -> None:
    """Make this session (or transaction) read history in key order by the index.

    Right after a bulk load the planner has no statistics and sorts all of history once for every page.
    """
    for setting in ("enable_seqscan", "enable_sort"):
        connection.execute("select set_config(%s, 'off', false)", (setting,))


@contextmanager
def uncollected() -> Iterator[None]:
    """Keep the collector of cycles from running.

    Folding makes no cycles, but enough objects to set it off again and again: it walked everything in the process for
    a third of a rebuild's time.
    """
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def fold_history(
    connection: psycopg.Connection[Any],
    projection: AnyProjection,
    after: StreamName = ("", ""),
    on_page: Callable[[int], None] | None = None,
    *,
    tolerant: bool = False,
) -> Iterator[Folded]:
    """Fold every stream of the projection's kinds after `after`, in order of (project_id, stream id).

    `on_page` is told how many events each page held. A `tolerant` caller is told of a history that cannot be folded;
    else whatever decoding or folding raises comes out.
    """
    fold = projection.fold
    project, stream = name = "", ""
    row, count, newer, broken = None, 0, False, False
    for page in _pages(FencedRecorder.over(connection), projection, after):
        events = MAPPER.to_domain_events(page, tolerant=tolerant)
        for stored, recorded in zip(page, events, strict=True):
            project_id, stream_id = stored.project_id, stored.stream_id
            if stream_id != stream or project_id != project:
                if count:
                    yield Folded(name, row, count, newer, broken)
                project, stream = name = project_id, stream_id
                row, count, newer, broken = None, 0, False, False
            count += 1
            if recorded is None or newer or broken:  # An erased event has left nothing to fold.
                continue
            if isinstance(recorded, Exception):
                row, newer, broken = None, isinstance(recorded, UnknownTopic), not isinstance(recorded, UnknownTopic)
                continue
            try:
                row = fold(row, recorded)
            except Exception:
                if not tolerant:
                    raise
                row, broken = None, True
        if on_page is not None:
            on_page(len(page))
    if count:
        yield Folded(name, row, count, newer, broken)


def _pages(recorder: FencedRecorder, projection: AnyProjection, after: StreamName) -> Iterator[Sequence[StreamEvent]]:
    place = (*after, 1 << 62)
    while page := recorder.select_history(projection.kinds, place, PAGE):
        yield page
        place = page[-1][:3]
        if len(page) < PAGE:
            return


def newer_among(connection: psycopg.Connection[Any], streams: Collection[StreamName]) -> set[StreamName]:
    """Which of these streams hold an event of a later release, wherever in their history."""
    columns = ([name[0] for name in streams], [name[1] for name in streams], known_topics())
    return set(connection.execute(_NEWER, columns).fetchall())


def fold_tails(
    connection: psycopg.Connection[Any], projection: AnyProjection, rows: dict[StreamName, Any]
) -> dict[StreamName, Any]:
    """Bring rows (None for streams without one) up to the end of their streams. Returns the new rows.

    Raises UnknownTopic for streams that hold an event of a later release.
    """
    fold, result = projection.fold, dict(rows)
    have = [(*name, 0 if row is None else row.revision) for name, row in rows.items()]
    for stored in FencedRecorder.over(connection).select_streams(have):
        if stored.payload is not None:
            name = stored.project_id, stored.stream_id
            result[name] = fold(result[name], MAPPER.to_domain_event(stored))
    return result


def row_values(row: Any, columns: Sequence[str]) -> list[Any]:
    """Lay a row out for COPY: scalars as they are, nested values as JSON text."""
    return [
        value if value is None or isinstance(value, str | int) else msgspec.json.encode(value).decode()
        for value in (getattr(row, column) for column in columns)
    ]


# What the rows of a rebuild depend on beside the history, as one hash: the code of the fold, the shape of the table. A
# fold is a pure function and reaches nothing outside the pure rooms (the import contracts hold it to that), so their
# whole source stands for it. That takes too much for a change of the fold rather than too little: a rebuild that
# starts over costs time, and one that mixes rows of two folds is wrong.

_SHAPE = load_query("history", "shape")


def fold_digest(connection: psycopg.Connection[Any], projection: AnyProjection) -> str:
    """Return the hash, hex, of a projection's fold and of its table as it is in the database."""
    digest = hashlib.sha256(_source_of_rooms().encode())
    for function in (projection.fold, projection.lasts):
        digest.update(f"{function.__module__}.{function.__qualname__}\0".encode())
        digest.update(source_of([_file_of(function.__module__)]).encode())
    [[shape]] = connection.execute(_SHAPE, {"table": projection.name}).fetchall()
    digest.update(shape.encode())
    return digest.hexdigest()


def source_of(files: Iterable[Path]) -> str:
    """Return the hash, hex, of the names and contents of files."""
    digest = hashlib.sha256()
    for file in sorted(files):
        content = file.read_bytes()
        digest.update(f"{file.parent.name}/{file.name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


@cache
def _source_of_rooms() -> str:
    rooms = [_file_of(room.__name__).parent for room in (schemas, statemachines, projections)]
    return source_of([_file_of(__name__), *_sources(rooms)])


def _sources(folders: Iterable[Path]) -> Iterator[Path]:
    for folder in folders:
        yield from folder.rglob("*.py")


def _file_of(module: str) -> Path:
    file = sys.modules[module].__file__
    assert file is not None, "what is imported from nowhere has no source"
    return Path(file)
