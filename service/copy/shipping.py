"""The shipper: a thread of one worker to seal batches, send each exactly once, and erase in the copy (G-200).

One process at a time ships: it holds a lock of the database with the connection by which it reads. Batches go one by
one, in order. A killed shipper leaves a sealed batch of which the copy has all, nothing, or something else; the next
one looks, and sends it again where it has to. Erasures are carried out between two batches. What they erase is gone
from PostgreSQL by then, so no later batch brings it back.

A copy that cannot be reached stops nothing but itself and the deletions that wait for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import structlog

from service.billing.plans import Retention
from service.copy import batches
from service.copy.batches import CopyPlace, OpenErasure, Row, Sealed, TelemetryBatch
from service.copy.engine import SHAPES, TABLES, CopyFailed, Engine, measure_of
from service.copy.reading import Answering
from service.eventstore.connect.connection import Connection
from service.eventstore.connect.facts import DAY
from service.eventstore.declare import names
from service.eventstore.log.reactor import Repeating
from service.settingvalues import CHDB
from service.sql import load_query

log = structlog.get_logger(__name__)

NAME = "copy"
PACE = 5
"""Seconds of a window at least, where there is no backlog: small batches would cost the engine more than they bring."""
REST = 1.0
FOLLOW_SECONDS = 5.0
"""Between two looks of a worker without the lock."""
AWAY_SECONDS = 5.0
"""Between two attempts to reach the copy."""
KEPT_SECONDS = 300.0
"""For which the days of plans are remembered."""
ATTEMPTS = 5
WIDEST = DAY

EMPTY = "the copy has lost its tables; `service telemetry copy --anew` fills it again"
FOREIGN = "the copy holds records of another installation; drop its tables, or name another database"
GREW = "a sealed window has more rows than it had"
OTHER = "the copy has something else than what was sent"
LEFT = "erased rows are still there"

_TRY_LOCK = load_query("copy", "try_lock")
_NOTE_LOOK = load_query("copy", "note_look")


class Shipping:
    """The work of a shipper on one connection, which holds the lock. Every step raises CopyFailed and psycopg.Error."""

    def __init__(self, connection: Connection, engine: Engine, kept: Callable[[], Retention]) -> None:
        self._connection = connection
        self._engine = engine
        self._kept = kept
        self._widths = dict.fromkeys(SHAPES, batches.FIRST_WIDTH)

    def begin(self, since: int = 0) -> None:
        """Find out where the last shipper stopped. Without a copy, begin one at the oldest record, or a later second.

        Batches that the database does not know are of a time before it was restored: they go.
        """
        there = self._engine.tables()
        known = batches.places(self._connection)
        if not known:
            self._engine.make_tables()
            if any(self._engine.count_after(table, 0) for table in SHAPES):
                raise CopyFailed(FOREIGN)
            batches.begin(self._connection, since)
            return
        if there != TABLES:
            raise CopyFailed(EMPTY)
        self._engine.end_inserts()
        for place in known:
            if gone := self._engine.forget_after(place.telemetry, place.number):
                log.warning("copy_unknown_batches_deleted", table=place.telemetry, rows=gone)
        if batches.next_version(self._connection) <= self._engine.newest_version():
            self._engine.empty_names()  # The database was restored, and may have older links.
            batches.note_all_names(self._connection)
        for scope in batches.erased_lately(self._connection):
            self._erase_again(OpenErasure("", scope, {}))
        batches.forget_expired(self._connection)

    def step(self) -> bool:
        """Ship names, erase what is to be erased, and ship a batch of each table. Returns whether there is more now.

        Names go first, once what they are told with is settled: the watermark never passes them.
        """
        _, last = batches.settled(self._connection)
        self.erase()
        more = [self._ship_next(place, last) for place in batches.places(self._connection)]
        self.note(None)
        return any(more)

    def note(self, problem: str | None) -> None:
        """Note a look at the copy, and the problem with it."""
        self._connection.execute(_NOTE_LOOK, {"problem": problem})

    # -- batches -----------------------------------------------------------------------------------------------------

    def _ship_next(self, place: CopyPlace, last: int) -> bool:
        waiting = batches.first_waiting(self._connection, place.telemetry)
        if waiting is not None:
            rows, _ = batches.read(self._connection, place.telemetry, waiting.since, waiting.until)
            self._ship(waiting, rows, fresh=False)
            return True
        if last + 1 - place.sealed.at < PACE:
            return False
        width = self._widths[place.telemetry]
        sealed = batches.seal(self._connection, place, last, width, self._kept())
        if sealed is None:
            return False
        if isinstance(sealed, Sealed):
            self._ship(sealed.batch, sealed.rows, fresh=True)
            share = max(len(sealed.rows) / batches.MOST_ROWS, 1 / 16)
            seconds = max(sealed.batch.until.at - sealed.batch.since.at, 1)
            self._widths[place.telemetry] = min(max(int(seconds / share / 2), PACE), WIDEST)
            return sealed.full or sealed.batch.until.at <= last
        self._widths[place.telemetry] = min(width * 8, WIDEST)
        return sealed <= last

    def _ship(self, batch: TelemetryBatch, rows: Sequence[Row], *, fresh: bool) -> None:
        """Bring a batch into the copy. `fresh`: it was sealed a moment ago, and nothing of it was sent."""
        wanted = measure_of(rows)
        if wanted != batch.measure:
            if wanted.rows >= batch.measure.rows:
                raise CopyFailed(GREW)
            batch = batches.shrink(self._connection, batch, wanted)
        window = (batch.telemetry, batch.number, batch.since.at, batch.until.at)
        found, answered = measure_of(()) if fresh else self._engine.measure(*window), False
        for _ in range(ATTEMPTS):
            if found == wanted:
                batches.note_copied(self._connection, batch)
                return
            if found.rows or answered:
                # Nothing of what the engine says it took: it knows the token, and what came with it was deleted since.
                batch = batches.begin_attempt(self._connection, batch)
                log.warning("copy_batch_sent_again", table=batch.telemetry, batch=batch.number)
            if found.rows:
                self._engine.forget_batch(*window)
            if rows:
                self.note(None)  # The lock is ours as long as the connection answers.
                kept = self._kept()
                days = {row[0]: kept.days.get(row[0], kept.longest) for row in rows}
                self._engine.insert(batch.telemetry, batch.number, batch.token, rows, days)
                answered = True
            found = self._engine.measure(*window)
        raise CopyFailed(OTHER)

    def ship_names(self) -> None:
        """Bring all changes of the names of people into the copy."""
        while (changed := batches.changed_names(self._connection)) is not None:
            linked = [(*key, person) for key, person in changed.people.items() if person is not None]
            if linked:
                self._engine.link(linked, changed.version)
            gone: dict[str, list[str]] = {}
            for (project_id, name), person in changed.people.items():
                if person is None:
                    gone.setdefault(project_id, []).append(name)
            for project_id, unlinked in gone.items():
                self._engine.forget_names(project_id, unlinked)
            batches.forget_changed(self._connection, changed)

    # -- erasures ----------------------------------------------------------------------------------------------------

    def erase(self) -> None:
        """Carry out the open erasures, after all that happened to names before they were asked for."""
        wanted = list(batches.open_erasures(self._connection))
        self.ship_names()
        for erasure in wanted:
            self._erase(erasure)
            batches.end_erasure(self._connection, erasure)
            rows = sum(measure.rows for measure in erasure.batches.values())
            log.info("copy_erased", deletion=erasure.id, rows=rows, batches=len(erasure.batches))

    def _erase(self, erasure: OpenErasure) -> None:
        holding = []
        for table in SHAPES:
            found = self._engine.count_scope(table, erasure.scope)
            if found:
                holding.append(table)
            for number, measure in found.items():
                erasure.batches.setdefault((table, number), measure)
        if holding:
            batches.note_erased(self._connection, erasure)
        self._delete(erasure, holding)

    def _erase_again(self, erasure: OpenErasure) -> None:
        """Erase the rows of a late INSERT of an erased project."""
        holding = [table for table in SHAPES if self._engine.count_scope(table, erasure.scope)]
        if holding:
            log.warning("copy_erased_again", project=erasure.scope.project_id)
            self._delete(erasure, holding)

    def _delete(self, erasure: OpenErasure, holding: Sequence[str]) -> None:
        for table in holding:
            self._engine.erase_scope(table, erasure.scope)
        if erasure.scope.names is None:  # Of a person, the names are nobody's since its erasure began.
            self._engine.forget_links(erasure.scope.project_id)
        if self._engine.apply_masks() or any(self._engine.count_scope(table, erasure.scope) for table in holding):
            raise CopyFailed(LEFT)


class Shipper(Repeating):
    """The thread. Workers take turns by the lock, and only the one that holds it opens the copy."""

    def __init__(self, conninfo: str, url: str, kept: Callable[[], Retention]) -> None:
        super().__init__(NAME, conninfo)
        self._url = url
        self._read_kept = kept
        self._kept: tuple[float, Retention] | None = None
        self._engine: Engine | None = None
        self._answering: Answering | None = None
        self._shipping: Shipping | None = None
        self._held_by: Connection | None = None
        self._told: str | None = None

    def turn(self, connection: Connection) -> float:
        """Ship the waiting rows. Returns the seconds until the next look."""
        if connection is not self._held_by:
            self._close()
            batches.adapt(connection)
            if not lead(connection):
                return FOLLOW_SECONDS
            self._held_by = connection
        try:
            if self._shipping is None:
                self._engine = Engine(self._url)
                shipping = Shipping(connection, self._engine, self._days)
                shipping.begin()
                if self._url.startswith(f"{CHDB}:"):
                    self._answering = Answering(self._url)
                self._shipping = shipping
            more = self._shipping.step()
        except CopyFailed as failed:
            self._close()
            connection.execute(_NOTE_LOOK, {"problem": str(failed)})
            if self._told != str(failed):
                log.warning("copy_stands_still", reason=str(failed))
            self._told = str(failed)
            return AWAY_SECONDS
        self._told = None
        return 0.0 if more else REST

    def stop(self) -> None:
        """Stop after the current turn, and let the copy go."""
        super().stop()
        if not self._thread.is_alive():
            self._close()

    def _days(self) -> Retention:
        if self._kept is None or self._kept[0] < time.monotonic() - KEPT_SECONDS:
            self._kept = time.monotonic(), self._read_kept()
        return self._kept[1]

    def _close(self) -> None:
        answering, self._answering = self._answering, None
        if answering is not None:
            answering.close()
        engine, self._engine, self._shipping = self._engine, None, None
        if engine is not None:
            engine.close()


def lead(connection: Connection) -> bool:
    """Take the lock of the shipper until the connection ends. Returns whether it was free."""
    [[free]] = connection.execute(_TRY_LOCK, {"number": names.lock_number("copy:shipper")}).fetchall()
    return bool(free)
