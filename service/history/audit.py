"""Checking what is stored: history against its hashes, read models against history. Reads only."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import msgspec
import psycopg
from psycopg import sql

from projections.kernel import AnyProjection
from service.eventstore.connect.facts import NOW_SECONDS
from service.eventstore.read.recorder import FencedRecorder
from service.eventstore.read.stored import (
    CHAIN_START,
    MAPPER,
    EventEnvelope,
    LogEvent,
    canonical,
    hash_chain,
    hash_leaf,
    hash_payload,
    microseconds,
)
from service.history.folding import Folded, fold_history, keep_to_the_index
from service.sql import load_query
from statemachines.kernel.topics import UnknownTopic

T = TypeVar("T")
Connection = psycopg.Connection[Any]
Report = Callable[[int, int], None]
"""Takes how much of long work is done, and how much there is."""
_ROWS_A_REPORT = 1_000
_PURGING = load_query("history", "purging")

ERASURE = "deletion.purging_began.v1"
"""The topic of the erasure event: its payload names in `scope_id` the scope whose payloads may be gone."""


class Problem(NamedTuple):
    """Something that is not as it was written, and where (of the log as a whole: its position)."""

    what: str
    project_id: str
    stream_id: str
    revision: int
    detail: str = ""


class Difference(NamedTuple):
    """A row that is not what its history folds to: missing, extra, different, or one of them cannot be read."""

    what: str
    project_id: str
    id: str


class Erased(NamedTuple):
    """A scope of which payloads are gone: of how many events, and by which deletion (empty: by none)."""

    project_id: str
    events: int
    deletion_id: str


@dataclass(slots=True)
class CheckedHistory:
    """What a check of history has come across: events, and those whose topics are of a later release.

    `gone` counts the erased events of each scope, with its first one; `deletions` names, for each scope that may be
    erased, the deletion that says so.
    """

    events: int = 0
    newer: int = 0
    gone: dict[str, tuple[int, LogEvent]] = field(default_factory=dict)
    deletions: dict[str, str] = field(default_factory=dict)

    @property
    def erased(self) -> list[Erased]:
        """The scopes of which payloads are gone, in their order."""
        return [Erased(scope, count, self.deletions.get(scope, "")) for scope, (count, _) in sorted(self.gone.items())]


def envelope_of(event: LogEvent) -> EventEnvelope:
    """Lay out a stored event's envelope as its leaf was made of it."""
    return EventEnvelope(
        event.project_id,
        event.stream_id,
        event.revision,
        event.kind,
        event.topic,
        event.event_id,
        event.command_id,
        event.actor_kind,
        event.actor_id,
        event.request_id,
        event.correlation_id,
        event.causation_id,
        microseconds(event.recorded_at),
        event.payload_hash.hex(),
    )


# Each names the first event that is wrong; where there is none, "revision" is the position.
_LOG_CHECKS = {
    "log_has_no_size": load_query("history", "log_has_no_size"),
    "log_has_holes": load_query("history", "log_has_holes"),
    "log_ends_early": load_query("history", "log_ends_early"),
    "log_exceeds_its_size": load_query("history", "log_exceeds_its_size"),
    "reader_ahead_of_log": load_query("history", "reader_ahead_of_log"),
    "queue_names_no_event": load_query("history", "queue_names_no_event"),
    "event_not_in_log": load_query("history", "event_not_in_log"),
    "event_not_in_project": load_query("history", "event_not_in_project"),
    "event_twice_in_log": load_query("history", "event_twice_in_log"),
    "log_names_no_event": load_query("history", "log_names_no_event"),
    "log_order_broken": load_query("history", "log_order_broken"),
}

_DAMAGED = load_query("history", "damaged")


def check_event(event: LogEvent, previous_chain: bytes) -> str | None:
    """Recompute an event's hashes. Returns a finding, None when all is well."""
    if event.payload is not None:
        try:
            payload = canonical(msgspec.json.decode(event.payload))
        except (msgspec.MsgspecError, RecursionError):  # Valid for the database, but nothing that is ever written.
            return "payload_altered"
        if event.salt is None or hash_payload(event.salt, payload) != event.payload_hash:
            return "payload_altered"
    elif event.salt is not None:
        return "half_erased"
    if hash_leaf(envelope_of(event)) != event.leaf:
        return "envelope_altered"
    if hash_chain(previous_chain, event.leaf) != event.chain:
        return "chain_broken"
    return None


def damaged_streams(connection: Connection, most: int) -> list[str]:
    """Ids of streams whose head and log differ, at most so many: the service answers `stream_damaged` for them."""
    return [stream_id for (stream_id,) in connection.execute(_DAMAGED, (most,)).fetchall()]


def check_history(connection: Connection, seen: CheckedHistory | None = None) -> Iterator[Problem]:
    """Recompute every chain, compare heads, and look for holes in the log. Yields the findings and fills in `seen`.

    Every machine must have been imported for payloads to be read too (service/registry.py).
    """
    seen = CheckedHistory() if seen is None else seen
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read, read only")
        yield from _check_streams(connection, seen)
        for scope, (count, first) in sorted(seen.gone.items()):
            if scope not in seen.deletions:
                detail = f"{count} payloads are gone, and no deletion names this scope"
                yield Problem("erased_without_event", scope, first.stream_id, first.revision, detail)
        yield from _check_log(connection)


def _check_streams(connection: Connection, seen: CheckedHistory) -> Iterator[Problem]:
    name, revision, chain, kind = ("", ""), 0, CHAIN_START, ""
    heads = {
        (p, s): (r, c, k)
        for p, s, r, c, k in connection.execute("select project_id, stream_id, revision, chain, kind from stream_heads")
    }
    for event in FencedRecorder.over(connection).select_all(page=5_000):
        if (event.project_id, event.stream_id) != name:
            yield from _check_head(heads, name, (revision, chain, kind))
            name, revision, chain = (event.project_id, event.stream_id), 0, CHAIN_START
        if event.revision != revision + 1:
            yield Problem("revision_missing", *name, revision + 1)
        wrong = _look_at(event, chain, seen)
        if wrong is not None:
            yield Problem(wrong, *name, event.revision)
        revision, chain, kind = event.revision, event.chain, event.kind
    yield from _check_head(heads, name, (revision, chain, kind))
    for left, (at, _, _) in heads.items():
        yield Problem("stream_missing", *left, at)


def _look_at(event: LogEvent, previous_chain: bytes, seen: CheckedHistory) -> str | None:
    """Count an event, recompute its hashes and read its payload. Returns the findings."""
    seen.events += 1
    if event.payload is None and event.salt is None:
        count, first = seen.gone.get(event.project_id, (0, event))
        seen.gone[event.project_id] = count + 1, first
    wrong = check_event(event, previous_chain)
    if wrong is not None or event.payload is None:
        return wrong
    try:
        if event.topic == ERASURE:
            seen.deletions[msgspec.json.decode(event.payload)["scope_id"]] = event.project_id
        MAPPER.to_domain_event(event)
    except UnknownTopic:
        seen.newer += 1
    except Exception:  # noqa: BLE001 - lifting an old payload may fail in any way on one that no release wrote
        return "payload_unreadable"
    return None


def _check_head(
    heads: dict[tuple[str, str], tuple[int, bytes, str]], name: tuple[str, str], last: tuple[int, bytes, str]
) -> Iterator[Problem]:
    if name != ("", "") and heads.pop(name, None) != last:
        yield Problem("head_differs", *name, last[0])


def _check_log(connection: Connection) -> Iterator[Problem]:
    for what, query in _LOG_CHECKS.items():
        found = connection.execute(query).fetchone()
        if found is not None:
            yield Problem(what, *found)


def unreported(done: int, total: int) -> None:
    """Tell nobody how far the work is."""


def count_rows(connection: Connection, table: str) -> int:
    """Count the rows of a table."""
    [[rows]] = connection.execute(sql.SQL("select count(*) from {}").format(sql.Identifier(table))).fetchall()
    return int(rows)


def reported(rows: Iterable[T], total: int, report: Report) -> Iterator[T]:
    """Yield rows, and report them as they are passed. The end is reported too."""
    for done, row in enumerate(rows):
        if done % _ROWS_A_REPORT == 0:
            report(done, total)
        yield row
    report(total, total)


def check_projection(
    connection: Connection, projection: AnyProjection, report: Report = unreported
) -> Iterator[Difference]:
    """Fold all history again and compare with the table row by row, in one snapshot. Yields the differences.

    A row whose time is over may be there or not. That of a stream which holds an event of a later release cannot be
    judged here, and is passed over (G-149); so are the rows of what is being erased, which go with their history. A row
    or a history that cannot be read is a difference too.
    """
    table = projection
    keep_to_the_index(connection)
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read, read only")
        [[now]] = connection.execute(f"select {NOW_SECONDS}").fetchall()
        purging = {scope for (scope,) in connection.execute(_PURGING).fetchall()}
        query = sql.SQL("select t.project_id, t.id, row_to_json(t)::text from {} t order by t.project_id, t.id").format(
            sql.Identifier(table.name)
        )
        with connection.cursor(name="rows") as cursor:
            cursor.itersize = 5_000
            cursor.execute(query)
            stored = reported(cursor, count_rows(connection, table.name), report)
            row = next(stored, None)
            for folded in fold_history(connection, projection, tolerant=True):
                while row is not None and (row[0], row[1]) < folded.name:
                    if row[0] not in purging:
                        yield Difference("extra", row[0], row[1])
                    row = next(stored, None)
                text = row[2] if row is not None and (row[0], row[1]) == folded.name else None
                over = folded.row is not None and not projection.lasts(folded.row, now)
                what = _compare(projection, folded, text, over=over)
                if what is not None and folded.name[0] not in purging:
                    yield Difference(what, *folded.name)
                if text is not None:
                    row = next(stored, None)
            while row is not None:
                if row[0] not in purging:
                    yield Difference("extra", row[0], row[1])
                row = next(stored, None)


def _compare(projection: AnyProjection, folded: Folded, text: str | None, *, over: bool) -> str | None:
    """What is wrong with the row of a stream, given as its JSON (None: there is none)."""
    if folded.broken:
        return "history_unreadable"
    if folded.newer:
        return None
    if text is None:
        return None if folded.row is None or over else "missing"
    try:
        row = msgspec.json.decode(text, type=projection.row)
    except (msgspec.MsgspecError, RecursionError):
        return "row_unreadable"
    return None if row == folded.row else "different"
