"""Folding history into rows, stream by stream, in constant memory: what rebuild and verify share."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import psycopg

from projections.kernel.projection import AnyProjection
from service.eventstore.cache import StreamName
from service.eventstore.codec import canonical
from statemachines.kernel.machine import Recorded
from statemachines.kernel.topics import UnknownTopic, decode_event, known_topics

PAGE = 20_000  # events read at a time
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
    place: tuple[str, str, int] = (*after, 1 << 62)
    name: StreamName | None = None
    row, count, newer, broken = None, 0, False, False
    query = _READ.encode()
    while page := connection.execute(query, (list(projection.kinds), *place, PAGE), prepare=True).fetchall():
        for project_id, stream_id, revision, topic, payload, at, actor in page:
            if name != (project_id, stream_id):
                if name is not None:
                    yield Folded(name, row, count, newer, broken)
                name, row, count, newer, broken = (project_id, stream_id), None, 0, False, False
            count += 1
            if payload is None or newer or broken:  # An erased event has left nothing to fold.
                continue
            try:
                row = fold(row, Recorded(stream_id, revision, decode_event(topic, payload), project_id, at, actor))
            except UnknownTopic:
                row, newer = None, True
            except Exception:
                if not tolerant:
                    raise
                row, broken = None, True
        place = (project_id, stream_id, revision)
        if on_page is not None:
            on_page(len(page))
        if len(page) < PAGE:
            break
    if name is not None:
        yield Folded(name, row, count, newer, broken)


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
