"""The side of PostgreSQL: sealed windows of telemetry, their manifests, and erasures to carry out (G-200).

A window is sealed once nothing can come into it any more: its last second has settled. From then on deletions and
retention may take rows out, and nothing adds any. Its manifest is its number of rows and the sum of their hashes, so
that the copy can be compared with it, and an erasure can take its rows out of the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import psycopg

from service.billing.plans import Retention
from service.copy.engine import SHAPES, CopyScope, Engine, Measure, measure_of
from service.eventstore.connect.connection import TRANSACTION_TIMEOUT_FROM, Connection
from service.eventstore.connect.facts import DAY
from service.packing import LARGEST, unpack_frame
from service.sql import Query, load_query

MOST_ROWS: Final = 100_000
MOST_BYTES: Final = 64 << 20
"""Of text in the rows of a batch, about. One row may have more."""
LAG_SECONDS: Final = 10
"""Between the last second of a window and the moment when it is sealed."""
SOME: Final = 2_000
"""Rows in one answer of the database."""
MOST_NAMES: Final = 20_000
MOST_ERASURES: Final = 100
FIRST_WIDTH: Final = 60
"""Seconds of the first window of a process. Each next one fits the rows of the one before."""
SETTINGS: Final = {"statement_timeout": "120s", "idle_in_transaction_session_timeout": "60s"}

_BEGIN = load_query("copy", "begin_copies")
_OLDEST = load_query("copy", "oldest_record")
_COPIES = load_query("copy", "copies")
_LOCK_NAMES = load_query("copy", "lock_names")
_NOTE_ALL_NAMES = load_query("copy", "note_all_names")
_CHANGED_NAMES = load_query("copy", "changed_names")
_NEXT_VERSION = load_query("copy", "next_version")
_FORGET_CHANGED_NAMES = load_query("copy", "forget_changed_names")
_SETTLED = load_query("copy", "settled")
_READ: Final[Mapping[str, Query]] = {
    "log_events": load_query("copy", "read_logs"),
    "analytics_events": load_query("copy", "read_analytics"),
}
_SEAL = load_query("copy", "seal_batch")
_SKIP = load_query("copy", "skip_empty")
_WAITING = load_query("copy", "first_waiting")
_SHRINK = load_query("copy", "shrink_batch")
_ATTEMPT = load_query("copy", "begin_attempt")
_COPIED = load_query("copy", "note_copied")
_ERASURES = load_query("copy", "open_erasures")
_NOTE_ERASED = load_query("copy", "note_erased_batches")
_END_ERASURE = load_query("copy", "end_erasure")
_ASK = load_query("copy", "ask_for_erasure")
ERASURE_WAITS = load_query("copy", "erasure_waits")
_ERASED_LATELY = load_query("copy", "erasures_of_day")
_STATUSES = load_query("copy", "statuses")
_MANIFESTS = load_query("copy", "manifests")
_MANIFEST = load_query("copy", "manifest")
_BEGIN_ANEW = load_query("copy", "begin_anew")
_FORGET_COPY = load_query("copy", "forget_copy")
_FORGET_BATCHES = load_query("copy", "forget_batches")

Row = Sequence[Any]


class RecordKey(NamedTuple):
    """The key of a record. Without project and id it lies before all records of its second."""

    at: int
    project_id: str = ""
    id: str = ""


class CopyPlace(NamedTuple):
    """How far the copy of a table has come: the last sealed batch and its last key, and the watermark."""

    telemetry: str
    number: int
    sealed: RecordKey
    copied_until: int
    failed: int
    problem: str | None
    looked_at: int


class TelemetryBatch(NamedTuple):
    """A sealed window, from after one key up to another, with its manifest. `attempt` is part of its token."""

    telemetry: str
    number: int
    since: RecordKey
    until: RecordKey
    measure: Measure
    attempt: int

    @property
    def token(self) -> str:
        """The name of its INSERT, for the copy to recognise a repeat."""
        return f"{self.telemetry}-{self.number}-{self.attempt}"


class Status(NamedTuple):
    """How far the copy of a table has come, with times in epoch seconds. `problem` is in the way of the worker."""

    table: str
    batches: int
    rows: int
    rows_waiting: int
    copied_until: int
    lag_seconds: int
    failed_batches: int
    problem: str | None
    looked_at: int
    now: int


class BatchDifference(NamedTuple):
    """A batch in the copy, unlike its manifest."""

    table: str
    number: int
    rows: int
    rows_in_copy: int


class ChangedNames(NamedTuple):
    """Names of people, each once, by project with whose they are now. None: nobody's. `ids` are those of the notes."""

    people: dict[tuple[str, str], str | None]
    projects: list[str]
    ids: list[int]
    version: int


class OpenErasure(NamedTuple):
    """An erasure in the copy, with its batches as far as they are known."""

    id: str
    scope: CopyScope
    batches: dict[tuple[str, int], Measure]


class Sealed(NamedTuple):
    """A batch with its rows. `full`: there may be more rows behind it."""

    batch: TelemetryBatch
    rows: Sequence[Row]
    full: bool


def adapt(connection: Connection) -> None:
    """Set a session up for reading and comparing whole batches."""
    settings = dict(SETTINGS)
    if connection.info.server_version >= TRANSACTION_TIMEOUT_FROM:
        settings["transaction_timeout"] = SETTINGS["statement_timeout"]
    for name, value in settings.items():
        connection.execute(f"set {name} = '{value}'")


# Places and windows.


def places(connection: Connection) -> list[CopyPlace]:
    """Read how far the copy has come, by table. Empty without a copy."""
    rows = connection.execute(_COPIES).fetchall()
    return [
        CopyPlace(name, number, RecordKey(at, project, one), *rest) for name, number, at, project, one, *rest in rows
    ]


def begin(connection: Connection, since: int = 0) -> None:
    """Begin the copy of each table at its oldest record, or at a later second, and of all names of people.

    What has begun goes on.
    """
    now, _ = settled(connection)
    oldest = []
    for table in SHAPES:
        query = _OLDEST.filled(table=f"{table}_default")
        [[first]] = connection.execute(query, {"table": table}).fetchall()
        oldest.append(now if first is None else min(int(first), now))
    with connection.transaction():
        connection.execute(_LOCK_NAMES)
        connection.execute(_BEGIN, {"telemetry": list(SHAPES), "oldest": oldest, "since": min(since, now)})
        connection.execute(_NOTE_ALL_NAMES)


def settled(connection: Connection) -> tuple[int, int]:
    """The time, and the last settled second: nothing more can come into it."""
    [[now, last]] = connection.execute(_SETTLED, {"lag": LAG_SECONDS}).fetchall()
    return int(now), int(last)


def read(connection: Connection, telemetry: str, since: RecordKey, until: RecordKey) -> tuple[list[Row], bool]:
    """Read the rows after a key up to another one of the same day, as the copy has them.

    Returns them with whether these are all: there are no more than a batch may have.
    """
    values = {
        "day": since.at - since.at % DAY,
        "since": since.at,
        "since_project": since.project_id,
        "since_id": since.id,
        "until": until.at,
        "until_project": until.project_id,
        "until_id": until.id,
        "most": MOST_ROWS + 1,
    }
    rows: list[Row] = []
    size = 0
    with connection.transaction(), connection.cursor(name="copy") as cursor:
        cursor.execute(_READ[telemetry].filled(table=telemetry), values)
        while found := cursor.fetchmany(SOME):
            for one in map(_SHAPED[telemetry], found):
                size += sum(map(_size, one))
                if len(rows) == MOST_ROWS or (rows and size > MOST_BYTES):
                    return rows, False
                rows.append(one)
    return rows, True


def _size(field: Any) -> int:
    """About how long a field is."""
    if field.__class__ is dict:
        return sum(len(key) + len(value) for key, value in field.items())
    return len(field) if field.__class__ is str else 0


def _by_key(text: str) -> dict[str, str]:
    """The members of an object by key, each as PostgreSQL writes it: numbers to the last digit, 1.0 unlike 1."""
    return {key: bytes(value).decode() for key, value in msgspec.json.decode(text, type=dict[str, msgspec.Raw]).items()}


def _event(row: Row) -> Row:
    """An event as the copy has it."""
    *before, properties, marker, adjusted, public, occurred = row
    return (*before, _by_key(properties), marker, adjusted, public, occurred)


def _log(row: Row) -> Row:
    """A log as the copy has it, unpacked."""
    *before, tags, extra, packed, case_id, fingerprint, grouped_by, marker, adjusted, public, occurred = row
    if packed is not None:
        extra = unpack_frame(packed, LARGEST).decode()
    return (*before, _by_key(tags), extra, case_id, fingerprint, grouped_by, marker, adjusted, public, occurred)


_SHAPED: Final[Mapping[str, Callable[[Row], Row]]] = {"log_events": _log, "analytics_events": _event}


def seal(connection: Connection, place: CopyPlace, last: int, width: int, kept: Retention) -> Sealed | int | None:
    """Seal the next window of a table: of `width` seconds, in one day, up to the second `last`.

    Returns the second up to which there was no row, for an empty one, and None when there is nothing to seal.
    """
    since = place.sealed
    end = min(last + 1, since.at - since.at % DAY + DAY, since.at + width)
    if end <= since.at:
        return None
    rows, whole = read(connection, place.telemetry, since, RecordKey(end))
    if not rows:
        connection.execute(_SKIP, {"telemetry": place.telemetry, "until": end})
        return end
    until = RecordKey(end)
    if not whole:
        latest = rows[-1][1]
        if rows[0][1] < latest:  # Up to the last second that is whole.
            rows, until = [row for row in rows if row[1] < latest], RecordKey(latest)
        else:
            until = RecordKey(latest, rows[-1][0], rows[-1][2])
    batch = TelemetryBatch(place.telemetry, place.number + 1, since, until, measure_of(rows), 1)
    shortest = min(kept.days.get(project_id, kept.longest) for project_id in {row[0] for row in rows})
    values = {**_values(batch), "kept_days": shortest}
    if not connection.execute(_SEAL, values).fetchall():
        raise RuntimeError("Another process seals batches.")
    return Sealed(batch, rows, full=not whole)


def _values(batch: TelemetryBatch) -> dict[str, Any]:
    return {
        "telemetry": batch.telemetry,
        "number": batch.number,
        "since": batch.since.at,
        "since_project": batch.since.project_id,
        "since_id": batch.since.id,
        "until": batch.until.at,
        "until_project": batch.until.project_id,
        "until_id": batch.until.id,
        "rows": batch.measure.rows,
        "digest": str(batch.measure.digest),
    }


def first_waiting(connection: Connection, telemetry: str) -> TelemetryBatch | None:
    """The first sealed batch of a table outside the copy."""
    rows = connection.execute(_WAITING, {"telemetry": telemetry}).fetchall()
    for number, at, project, one, to, to_project, to_one, count, digest, attempt in rows:
        measure = Measure(count, int(digest))
        return TelemetryBatch(
            telemetry, number, RecordKey(at, project, one), RecordKey(to, to_project, to_one), measure, attempt
        )
    return None


def shrink(connection: Connection, batch: TelemetryBatch, measure: Measure) -> TelemetryBatch:
    """Correct the manifest of a batch outside the copy, after it lost rows."""
    values = {"telemetry": batch.telemetry, "number": batch.number, "rows": measure.rows, "digest": str(measure.digest)}
    connection.execute(_SHRINK, values)
    return batch._replace(measure=measure)


def begin_attempt(connection: Connection, batch: TelemetryBatch) -> TelemetryBatch:
    """Begin another attempt at a batch, under another token."""
    values = {"telemetry": batch.telemetry, "number": batch.number}
    [[attempt]] = connection.execute(_ATTEMPT, values).fetchall()
    return batch._replace(attempt=attempt)


def note_copied(connection: Connection, batch: TelemetryBatch) -> None:
    """Note a batch as copied, and move the watermark."""
    values = {"telemetry": batch.telemetry, "number": batch.number, "until": batch.until.at}
    connection.execute(_COPIED, values)


def changed_names(connection: Connection) -> ChangedNames | None:
    """Read some names of people that the copy does not know yet. None without any."""
    rows = connection.execute(_CHANGED_NAMES, {"most": MOST_NAMES}).fetchall()
    if not rows:
        return None
    version = next_version(connection)
    people = {(project_id, name): person for project_id, _, name, person in rows}
    return ChangedNames(people, [row[0] for row in rows], [row[1] for row in rows], version)


def next_version(connection: Connection) -> int:
    """Return a number after those of all that was sent of names before."""
    [[version]] = connection.execute(_NEXT_VERSION).fetchall()
    return int(version)


def forget_changed(connection: Connection, names: ChangedNames) -> None:
    """Forget that these names have changed."""
    connection.execute(_FORGET_CHANGED_NAMES, {"projects": names.projects, "ids": names.ids})


def note_all_names(connection: Connection) -> None:
    """Note the names of all people as changed."""
    connection.execute(_NOTE_ALL_NAMES)


def forget_expired(connection: Connection) -> None:
    """Forget manifests whose rows the copy keeps no longer."""
    connection.execute(_FORGET_BATCHES, {"most": MOST_ROWS})


def statuses(connection: psycopg.Connection[Any]) -> list[Status]:
    """Read how far the copy has come, with its batches, by table. Empty without a copy."""
    return [Status(*row) for row in connection.execute(_STATUSES)]


def differing(connection: Connection, engine: Engine) -> Iterator[BatchDifference | None]:
    """Compare each batch in the copy with its manifest: None for an equal one.

    The copy may have less of a batch after its days. An erasure may run meanwhile, so a batch is looked at twice.
    """
    for table in SHAPES:
        after = 0
        while rows := connection.execute(_MANIFESTS, {"telemetry": table, "after": after, "most": SOME}).fetchall():
            for row in rows:
                after = row[0]
                found = _differs(engine, table, row)
                if found is not None:
                    now = connection.execute(_MANIFEST, {"telemetry": table, "number": after}).fetchall()
                    found = _differs(engine, table, now[0]) if now else None
                yield found


def _differs(engine: Engine, table: str, manifest: Row) -> BatchDifference | None:
    number, since, until, rows, digest, over = manifest
    found = engine.measure(table, number, since, until)
    if found == Measure(rows, int(digest)) or (over and found.rows < rows):
        return None
    return BatchDifference(table, number, rows, found.rows)


def begin_anew(connection: Connection) -> None:
    """Forget how far the copy has come. Deletions wait on for their erasures in it."""
    connection.execute(_BEGIN_ANEW)


def forget_copy(connection: Connection) -> None:
    """Forget the copy. No deletion waits for it any more."""
    connection.execute(_FORGET_COPY)


# Erasures.


async def may_end(
    connection: psycopg.AsyncConnection[Any], deletion_id: str, scope_id: str, person: str | None = None
) -> bool:
    """Ask for the erasure in the copy, once nothing is left in PostgreSQL. Returns whether the deletion may end.

    `person` is the stream of a person's erasure. Without a copy nothing is asked for.
    """
    values = {"deletion_id": deletion_id, "scope_id": scope_id, "person": person}
    [[done]] = await (await connection.execute(_ASK, values)).fetchall()
    return bool(done)


def open_erasures(connection: Connection) -> Iterator[OpenErasure]:
    """Read the open erasures. A person's names are gone once the project is: then there is no scope."""
    rows = connection.execute(_ERASURES, {"most": MOST_ERASURES}).fetchall()
    for one, scope_id, person, names, until, batches in rows:
        scope = CopyScope(scope_id) if person is None else CopyScope(scope_id, names or [], until or 0)
        known = msgspec.convert(batches, list[tuple[str, int, int, int]])
        yield OpenErasure(one, scope, {(table, number): Measure(*rest) for table, number, *rest in known})


def note_erased(connection: Connection, erasure: OpenErasure) -> None:
    """Note the batches of an erasure, before it takes rows from them."""
    found = [[table, number, *measure] for (table, number), measure in sorted(erasure.batches.items())]
    connection.execute(_NOTE_ERASED, {"id": erasure.id, "batches": msgspec.json.encode(found).decode()})


def end_erasure(connection: Connection, erasure: OpenErasure) -> None:
    """End an erasure, and take its rows out of the manifests. The deletion goes on."""
    connection.execute(_END_ERASURE, {"id": erasure.id})


def erased_lately(connection: Connection) -> list[CopyScope]:
    """Name the projects erased in the copy within the last day."""
    return [CopyScope(scope) for _, scope in connection.execute(_ERASED_LATELY, {"most": MOST_ERASURES}).fetchall()]
