"""Folding history into rows, stream by stream, in constant memory: what rebuild and verify share."""

from __future__ import annotations

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
from service.eventstore.declare.codec import canonical
from service.eventstore.state.cache import StreamName
from statemachines.kernel.machine import Recorded
from statemachines.kernel.topics import UnknownTopic, decode_event, decode_events, known_topics

PAGE = 5_000  # events read at a time
_MODULUS = 1 << 256

_READ = (
    "select e.project_id, e.stream_id, e.revision, e.topic, e.payload::text, "
    "floor(extract(epoch from e.recorded_at))::bigint, e.actor_kind || ':' || e.actor_id from events e "
    "where e.kind = any(%s) and (e.project_id, e.stream_id, e.revision) > (%s, %s, %s) "
    "order by e.project_id, e.stream_id, e.revision limit %s"
)
_READ_STREAMS = (
    "select e.project_id, e.stream_id, e.revision, e.topic, e.payload::text, "
    "floor(extract(epoch from e.recorded_at))::bigint, e.actor_kind || ':' || e.actor_id "
    "from unnest(%s::text[], %s::text[], %s::bigint[]) h(project_id, stream_id, have) "
    "join events e on e.project_id = h.project_id and e.stream_id = h.stream_id and e.revision > h.have "
    "order by e.project_id, e.stream_id, e.revision"
)
_NEWER = (
    "select distinct e.project_id, e.stream_id from unnest(%s::text[], %s::text[]) h(project_id, stream_id) "
    "join events e on e.project_id = h.project_id and e.stream_id = h.stream_id "
    "where e.topic <> all(%s::text[]) and e.payload is not null"
)


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
    for page in _pages(connection, projection, after):
        decoded = _decoded([stored[3] for stored in page], [stored[4] for stored in page], tolerant=tolerant)
        for (project_id, stream_id, revision, _, _, at, actor), event in zip(page, decoded, strict=True):
            if stream_id != stream or project_id != project:
                if count:
                    yield Folded(name, row, count, newer, broken)
                project, stream = name = project_id, stream_id
                row, count, newer, broken = None, 0, False, False
            count += 1
            if event is None or newer or broken:  # An erased event has left nothing to fold.
                continue
            if isinstance(event, Exception):
                row, newer, broken = None, isinstance(event, UnknownTopic), not isinstance(event, UnknownTopic)
                continue
            try:
                row = fold(row, Recorded(stream_id, revision, event, project_id, at, actor))
            except Exception:
                if not tolerant:
                    raise
                row, broken = None, True
        if on_page is not None:
            on_page(len(page))
    if count:
        yield Folded(name, row, count, newer, broken)


def _pages(
    connection: psycopg.Connection[Any], projection: AnyProjection, after: StreamName
) -> Iterator[Sequence[tuple[Any, ...]]]:
    query, kinds, place = _READ.encode(), list(projection.kinds), (*after, 1 << 62)
    while page := connection.execute(query, (kinds, *place, PAGE), prepare=True).fetchall():
        yield page
        place = page[-1][:3]
        if len(page) < PAGE:
            return


def _decoded(topics: Sequence[str], payloads: Sequence[str | bytes | None], *, tolerant: bool) -> list[Any]:
    """Decode a page. For a `tolerant` caller the fault of a payload stands in the event's place."""
    try:
        return decode_events(topics, payloads)
    except Exception:
        if not tolerant:
            raise
    return [_decoded_alone(topic, payload) for topic, payload in zip(topics, payloads, strict=True)]


def _decoded_alone(topic: str, payload: str | bytes | None) -> Any:
    try:
        return decode_events([topic], [payload])[0]
    except Exception as error:  # noqa: BLE001 - whatever a payload is, it is its own stream that cannot be folded
        return error


def newer_among(connection: psycopg.Connection[Any], streams: Collection[StreamName]) -> set[StreamName]:
    """Which of these streams hold an event of a later release, wherever in their history."""
    columns = ([name[0] for name in streams], [name[1] for name in streams], known_topics())
    return set(connection.execute(_NEWER.encode(), columns).fetchall())


def fold_tails(
    connection: psycopg.Connection[Any], projection: AnyProjection, rows: dict[StreamName, Any]
) -> dict[StreamName, Any]:
    """Bring rows (None for streams without one) up to the end of their streams; returns the new rows.

    Raises UnknownTopic for streams that hold an event of a later release.
    """
    fold, result = projection.fold, dict(rows)
    columns = (
        [name[0] for name in rows],
        [name[1] for name in rows],
        [0 if row is None else row.revision for row in rows.values()],
    )
    for project_id, stream_id, revision, topic, payload, at, actor in connection.execute(_READ_STREAMS, columns):
        if payload is None:
            continue
        name = (project_id, stream_id)
        recorded = Recorded(stream_id, revision, decode_event(topic, payload), project_id, at, actor)
        result[name] = fold(result[name], recorded)
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

_SHAPE = """
select coalesce(json_agg(x.line order by x.line), '[]')::text from (
    select format('%%s %%s %%s %%s', a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attcollation) line
    from pg_attribute a where a.attrelid = %(table)s::text::regclass and a.attnum > 0 and not a.attisdropped
    union all
    select pg_get_constraintdef(c.oid) from pg_constraint c where c.conrelid = %(table)s::text::regclass
    union all
    select substr(i.indexdef, position(' USING ' in i.indexdef)) from pg_indexes i
    where i.schemaname = current_schema() and i.tablename = %(table)s::text
) x
"""


def fold_digest(connection: psycopg.Connection[Any], projection: AnyProjection) -> str:
    """Return the hash, hex, of a projection's fold and of its table as it is in the database."""
    digest = hashlib.sha256(_source_of_rooms().encode())
    for function in (projection.fold, projection.lasts):
        digest.update(f"{function.__module__}.{function.__qualname__}\0".encode())
        digest.update(source_of([_file_of(function.__module__)]).encode())
    [[shape]] = connection.execute(_SHAPE.encode(), {"table": projection.name}).fetchall()
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
