"""Rebuilding a read model while the service runs.

The log is folded into a shadow table, stream by stream and resumable. Events appended meanwhile are folded on top
until little is left; then the swap locks out the table's writers for a moment, folds the rest (what is committed but
not yet numbered too), and renames. A writer that waited meanwhile resolves the name again and finds the new table.

A stream that holds an event of a later release is not folded (G-149). Its row is taken over as that release has left
it in the table, in the swap at the latest: whoever writes it writes it there.
"""

import time
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import msgspec
import psycopg
import structlog
from psycopg import sql

from projections.kernel import AnyProjection, Table
from service.eventstore.connect.facts import NOW_SECONDS
from service.eventstore.declare import names
from service.eventstore.declare.commands import Command, Intent, system_command
from service.eventstore.read import statements
from service.eventstore.read.recorder import FencedRecorder
from service.eventstore.schema.roles import copy_rights
from service.eventstore.state.cache import StreamName
from service.history import folding
from service.history.audit import Report, unreported
from service.sql import Query, Statement, load_query
from statemachines import audit as rebuilds
from statemachines.kernel.topics import known_topics

log = structlog.get_logger()

WRITE_EVERY = 5_000  # rows copied per transaction
NEARLY_DONE = 500  # events left for the swap itself
LOCK_TIMEOUT_MS = 400
SWAP_TRIES = 50

_SIZE_AND_TIME = load_query("history", "size_and_time")
_CURSOR = load_query("history", "cursor")
_BEGIN = load_query("history", "begin_rebuild")
_SAVE = load_query("history", "save_cursor")
_COLUMNS = load_query("history", "columns")
_INDEXES = load_query("history", "indexes")
_COUNT_FOLDED = load_query("history", "count_folded")
_NUMBERED = load_query("history", "numbered")
_COMMITTED = load_query("history", "committed")
_TAKE_ERASED = load_query("history", "take_erased")
_LEAVE_ERASED = load_query("history", "leave_erased")

Connection = psycopg.Connection[Any]


class RebuildRunning(Exception):
    """Another process is rebuilding this read model."""


class TableIsNewer(Exception):
    """A later release has given the table columns that this one would leave empty: rebuild it with that release."""


class _Rebuild:
    """One rebuild in progress; its cursor lives in the table `rebuilds` so that another process can go on."""

    def __init__(self, connection: Connection, projection: AnyProjection, progress: Report) -> None:
        self.connection = connection
        self.projection = projection
        self.table = projection
        self.shadow = f"{self.table.name}_rebuild"
        self.progress = progress
        self.recorder = FencedRecorder.over(connection)
        self.digest = folding.RowDigest()
        self.rows = self.events = self.position = self.started_at = 0
        self.after: StreamName = ("", "")

    def open(self) -> None:
        """Start, or take up what a killed rebuild left if it folded by the same code into the same table.

        Raises TableIsNewer.
        """
        self._check_columns()
        folding_by = folding.fold_digest(self.connection, self.projection)
        found = self.connection.execute(_CURSOR, (self.table.name, folding_by)).fetchone()
        if found is not None:
            self.position, project_id, stream_id, self.rows, self.events, digest, self.started_at = found
            self.after, self.digest = (project_id, stream_id), folding.RowDigest(int(digest, 16))
            return
        with self.connection.transaction():
            [self.position, self.started_at] = self._one(_SIZE_AND_TIME)
            self.connection.execute("delete from rebuilds where name = %s", (self.table.name,))
            self._run("drop table if exists {shadow}")
            self._run("create table {shadow} (like {table} including all)")
            self.connection.execute(_BEGIN, (self.table.name, self.position, self.started_at, folding_by))

    def _check_columns(self) -> None:
        found = self.connection.execute(_COLUMNS, (self.table.name,))
        unknown = {name for (name,) in found.fetchall()} - set(self.table.columns)
        if unknown:
            raise TableIsNewer(f"{self.table.name} has {', '.join(sorted(unknown))}")

    def fold_everything(self) -> None:
        """Fold all history after the cursor into the shadow table."""
        [total] = self._one("select count(*) from events where kind = any(%s)", list(self.projection.kinds))
        pending: list[folding.Folded] = []
        for folded in folding.fold_history(self.connection, self.projection, self.after):
            pending.append(folded)
            if len(pending) >= WRITE_EVERY:
                self._copy(pending)
                self.progress(self.events, max(total, self.events))
                pending = []
        if pending:
            self._copy(pending)
        self.progress(self.events, max(total, self.events))

    def _copy(self, pending: list[folding.Folded]) -> None:
        columns = self.table.columns
        kept = self._rows(self.table, [folded.name for folded in pending if folded.newer])
        with self.connection.transaction():
            target = sql.SQL("copy {} ({}) from stdin").format(
                sql.Identifier(self.shadow), sql.SQL(", ").join(map(sql.Identifier, columns))
            )
            with self.connection.cursor().copy(target) as copy:
                for folded in pending:
                    row = kept.get(folded.name) if folded.newer else folded.row
                    if self._shows(row):
                        copy.write_row(folding.row_values(row, columns))
                        self.digest.add(row)
                        self.rows += 1
            self.events += sum(folded.events for folded in pending)
            self.after = pending[-1].name
            self._save()

    def _shows(self, row: Any) -> bool:
        """Whether there is a row, and its time was not over when the rebuild began."""
        return row is not None and self.projection.lasts(row, self.started_at)

    def _save(self) -> None:
        place = (self.position, *self.after, self.rows, self.events, self.digest.hex)
        self.connection.execute(_SAVE, (*place, self.table.name))

    def count_events(self) -> None:
        """Count anew what has been folded: exactly the events up to the position, however often some were read."""
        kinds = list(self.projection.kinds)
        [self.events] = self._one(_COUNT_FOLDED, kinds, kinds, self.position)

    def catch_up(self) -> None:
        """Fold what was appended since, until little is left."""
        while True:
            size = self.recorder.max_notification_id() or 0
            if size - self.position < NEARLY_DONE:
                return
            with self.connection.transaction():
                until = min(size, self.position + 10_000)
                self._refold(_NUMBERED, (self.position, until, list(self.projection.kinds)))
                self.position = until
                self._save()
            self.progress(self.events, self.events + size - until)

    def _refold(self, query: Query, params: tuple[Any, ...]) -> None:
        """Fold the tails of the streams that a query names, with how many events each, and upsert their rows."""
        found = self.connection.execute(query, params).fetchall()
        stale: dict[StreamName, Any] = {(project_id, stream_id): None for project_id, stream_id, _ in found}
        self.events += sum(count for _, _, count in found)
        if not stale:
            return
        shadow = Table(self.shadow, self.projection.row)
        stale.update(self._rows(shadow, stale))
        newer = folding.newer_among(self.connection, stale)
        readable = {name: row for name, row in stale.items() if name not in newer}
        folded = folding.fold_tails(self.connection, self.projection, readable)
        folded.update({**dict.fromkeys(newer), **self._rows(self.table, newer)})
        fresh = {name: row if self._shows(row) else None for name, row in folded.items()}
        changed = [name for name in stale if fresh[name] != stale[name]]
        for name in changed:
            if stale[name] is not None:
                self.digest.remove(stale[name])
                self.rows -= 1
            if fresh[name] is not None:
                self.digest.add(fresh[name])
                self.rows += 1
        upserts = [fresh[name] for name in changed if fresh[name] is not None]
        gone = [name for name in changed if fresh[name] is None]
        if upserts:
            self.connection.execute(statements.upsert_rows(shadow), (msgspec.json.encode(upserts).decode(),))
        if gone:
            self.connection.execute(statements.delete_rows(shadow), tuple(map(list, zip(*gone, strict=True))))

    def _rows(self, table: Table[Any], streams: Collection[StreamName]) -> dict[StreamName, Any]:
        """The rows that a table has for these streams."""
        if not streams:
            return {}
        ids = tuple(map(list, zip(*streams, strict=True)))
        found = self.connection.execute(statements.load_rows(table), ids).fetchall()
        rows = (msgspec.json.decode(text, type=table.row) for (text,) in found)
        return {(row.project_id, row.id): row for row in rows}

    def swap(self) -> None:
        """Lock out writers, fold the rest, rename; tries again while the table is in use."""
        for _ in range(SWAP_TRIES):
            before = (self.digest.value, self.rows, self.events)
            try:
                with self.connection.transaction():
                    self.connection.execute(statements.LOCK_TIMEOUT, (f"{LOCK_TIMEOUT_MS}ms",))
                    # No round spans the swap: one that wrote afterwards what it had read before would undo it.
                    self.connection.execute(statements.WAIT_GATE, (names.lock_number(names.READ_MODELS),))
                    self._run("lock table {table} in exclusive mode")
                    # One statement, one snapshot: numbered after the cursor, or committed and not yet numbered.
                    self._refold(_COMMITTED, (list(self.projection.kinds), self.position))
                    self.take_erased()
                    self._rename()
                    self.connection.execute("delete from rebuilds where name = %s", (self.table.name,))
            except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
                self.digest, (self.rows, self.events) = folding.RowDigest(before[0]), before[1:]
                time.sleep(LOCK_TIMEOUT_MS / 1000)  # A waiting swap blocks all others: now they go first.
                self.catch_up()
            else:
                return
        raise RebuildRunning(f"{self.table.name} stayed in use; the rebuild can be resumed")

    def take_erased(self) -> None:
        """Take the rows of scopes that are being erased, or were, as they are in the table: no event says that they go.

        Their history has been leaving the log since it was folded. What the purge has left it removes from the table
        that the swap has put in place; what it has removed never comes back.
        """
        names = tuple(self.table.columns)
        changes = (
            (_LEAVE_ERASED.filled(shadow=self.shadow), self.digest.remove, -1),
            (
                _TAKE_ERASED.filled(shadow=self.shadow, table=self.table.name, columns=names),
                self.digest.add,
                1,
            ),
        )
        for query, count, step in changes:
            for (text,) in self.connection.execute(query).fetchall():
                count(msgspec.json.decode(text, type=self.table.row))
                self.rows += step

    def _rename(self) -> None:
        old_indexes, new_indexes = self._indexes(self.table.name), self._indexes(self.shadow)
        copy_rights(self.connection, self.table.name, self.shadow)
        self._run("alter table {table} rename to {old}")
        self._run("alter table {shadow} rename to {table}")
        for definition, name in old_indexes.items():
            self._run("alter index {a} rename to {b}", a=name, b=f"{name}_old")
            self._run("alter index {a} rename to {b}", a=new_indexes[definition], b=name)

    def _indexes(self, table: str) -> dict[str, str]:
        """Map what each index is on to its name."""
        rows = self.connection.execute(_INDEXES, (table,))
        return {str(definition): str(name) for definition, name in rows.fetchall()}

    def retire(self) -> str:
        """Digest the old table, which nobody writes any more, without what the new one left out, and drop it."""
        digest = folding.RowDigest()
        with self.connection.transaction(), self.connection.cursor(name="retired") as cursor:
            cursor.execute(sql.SQL("select row_to_json(t)::text from {} t").format(sql.Identifier(self._old)))
            for (text,) in cursor:
                row = msgspec.json.decode(text, type=self.table.row)
                if self._shows(row):
                    digest.add(row)
        self._run("drop table {old}")
        return digest.hex

    @property
    def _old(self) -> str:
        return f"{self.table.name}_old"

    def _run(self, statement: str, **more: str) -> None:
        self.connection.execute(
            sql.SQL(statement).format(
                table=sql.Identifier(self.table.name),
                shadow=sql.Identifier(self.shadow),
                old=sql.Identifier(self._old),
                **{key: sql.Identifier(value) for key, value in more.items()},
            )
        )

    def _one(self, query: Statement, *params: Any) -> tuple[Any, ...]:
        row = self.connection.execute(query, params).fetchone()
        assert row is not None
        return tuple(row)


def rebuild(conninfo: str, projection: AnyProjection, progress: Report = unreported) -> rebuilds.ProjectionRebuilt:
    """Rebuild one read model; safe under load, resumable after a kill. Returns the receipt.

    Raises RebuildRunning when another process rebuilds it, or when every attempt to swap found the table in use, and
    TableIsNewer when a later release must do it.
    """
    with psycopg.connect(conninfo, autocommit=True, application_name="service-rebuild") as connection:
        folding.keep_to_the_index(connection)
        number = names.lock_number(f"rebuild:{projection.name}")
        [[free]] = connection.execute("select pg_try_advisory_lock(%s)", (number,)).fetchall()
        if not free:
            raise RebuildRunning(projection.name)
        work = _Rebuild(connection, projection, progress)
        _drop_leftover(connection, work)
        work.open()
        with folding.uncollected():
            work.fold_everything()
        work.count_events()
        work.catch_up()
        work.swap()
        [[finished_at]] = connection.execute(f"select {NOW_SECONDS}").fetchall()
        old_digest = work.retire()
        return rebuilds.ProjectionRebuilt(
            projection=projection.name,
            position=work.position,
            events=work.events,
            rows=work.rows,
            old_digest=old_digest,
            new_digest=work.digest.hex,
            started_at=work.started_at,
            finished_at=finished_at,
        )


def _drop_leftover(connection: Connection, work: _Rebuild) -> None:
    """Drop the retired table of a rebuild that was killed between its swap and its receipt."""
    connection.execute(sql.SQL("drop table if exists {}").format(sql.Identifier(f"{work.table.name}_old")))


def receipt_command(receipt: rebuilds.ProjectionRebuilt) -> Command:
    """Build the command that records a receipt in the read model's own stream."""
    stream = rebuilds.stream(receipt.projection)
    intent = Intent([stream], lambda unit: unit.append(stream, [receipt]))
    return system_command("operator", f"REBUILD {receipt.projection}", intent, gates=(rebuilds.SCOPE,))


# What the log holds of a later release: the topics that this one cannot read, and the streams that hold them (G-149).
# The reactor notes each topic where it meets it first (`topics_met`), so that asking costs a few rows while there is
# nothing, and a part of the log while there is.

LOOKED_THROUGH = 100_000
"""Events after the first unknown one that a count reads at most: it is asked for by health checks."""

UNKNOWN = load_query("history", "unknown_topics")
COUNT = load_query("history", "streams_of_topics")


class TopicSearch(NamedTuple):
    """The parameters of COUNT: positions to look through, and topics to look for."""

    first: int
    last: int
    topics: list[str]


def known() -> tuple[list[str]]:
    """The parameters of UNKNOWN. Every machine must have been imported (service/registry.py)."""
    return (known_topics(),)


def asked(unknown: Sequence[tuple[str, int]]) -> TopicSearch:
    """What to count, given the rows of UNKNOWN; there must be some."""
    first = min(position for _, position in unknown)
    return TopicSearch(first, first + LOOKED_THROUGH - 1, [topic for topic, _ in unknown])


def describe(topics: Sequence[str], streams: int) -> str:
    """Say it to an operator."""
    return (
        f"{streams} streams hold events of a later release ({', '.join(topics)}) and answer stream_is_newer: "
        "bring this process to that release"
    )
