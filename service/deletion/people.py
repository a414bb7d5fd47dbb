"""Erasures of people: fenced, purged, shown, and done again after a restore (G-197).

The fence holds the project's gate exclusively for a moment: all earlier records are stored by then. It puts the names
down as a fact beside the event, which knows their number alone.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import psycopg
import structlog
from msgspec import UNSET

from projections.deletion import ERASURE_NAMES, ERASURES, NAMINGS, ErasureNamesRow, ErasureRow
from schemas.deletion import UserDeleted, UserDeleting
from schemas.kernel.shape import shape_from
from service.auth.authority import carry_out
from service.copy.batches import ERASURE_WAITS, may_end
from service.deletion.advancing import AT_MOST, SLICE, move_all
from service.deletion.ledger import PersonErasure, people_erased, remember
from service.eventstore.connect.connection import WatchedConnection
from service.eventstore.declare import names
from service.eventstore.declare.commands import (
    Intent,
    Lookup,
    OutcomeUnknown,
    Unit,
    alone,
    leave_room,
    prepare,
    replicate,
    retry_moved,
)
from service.eventstore.schema.migrations import partitions_of
from service.eventstore.store import EventStore
from service.fairness.turns import CommandNotDone
from service.ids import new_id
from service.registry import registry
from service.settings import Settings
from service.sql import Query, load_query
from statemachines.deletion import erasure as erasures
from statemachines.deletion.erasure import AskForErasure, request_sha256, stream
from statemachines.kernel.machine import Moved, Rejection, Stream

# Erasures of people: the fence with the names that go, the beginning of the purge, its end (G-197).


def fence_person(project_id: str, name: str, person: str, wish: AskForErasure) -> Intent[ErasureRow]:
    """Accept the erasure of the person with a name, `person` by an earlier look. A repeat records nothing.

    Raises OtherErasure, and Moved for a name of another person by now.
    """
    stream = erasures.stream(project_id, wish.person_hash)

    def decide(unit: Unit) -> ErasureRow:
        known = unit.row(NAMINGS, project_id, name)
        if (name if known is None else known.person) != person:
            raise Moved
        return _accept(unit, stream, wish, [name] if known is None else known.names)

    return Intent([stream], decide, lookups=[Lookup(NAMINGS, project_id, name)], fence=True)


def fence_names(project_id: str, names: Sequence[str], wish: AskForErasure) -> Intent[ErasureRow]:
    """Accept the erasure of names in a restored database once more."""
    stream = erasures.stream(project_id, wish.person_hash)
    return Intent([stream], lambda unit: _accept(unit, stream, wish, list(names)), fence=True)


def begin(row: ErasureRow) -> Intent[None]:
    """Let the rows of a person go."""
    stream = erasures.stream(row.project_id, row.person_hash)

    def decide(unit: Unit) -> None:
        unit.append(stream, erasures.decide_begin(unit.state(stream), row.deletion_id, unit.now))

    return Intent([stream], decide)


def complete(row: ErasureRow) -> Intent[None]:
    """End an erasure, and forget the names."""
    stream = erasures.stream(row.project_id, row.person_hash)

    def decide(unit: Unit) -> None:
        names = unit.row(ERASURE_NAMES, *stream.name)
        records = 0 if names is None else names.records
        events = erasures.decide_complete(unit.state(stream), row.deletion_id, records, unit.now)
        unit.append(stream, events)
        if events:
            over = ErasureNamesRow(
                project_id=row.project_id, id=stream.id, names=[], until=0, links_cut=True, records=records
            )
            unit.put(stream, ERASURE_NAMES, over)

    return Intent([stream], decide, lookups=[Lookup(ERASURE_NAMES, *stream.name)])


def _accept(unit: Unit, stream: Stream, wish: AskForErasure, names: list[str]) -> ErasureRow:
    events = erasures.decide_fence(unit.state(stream), wish, len(names), unit.now)
    unit.append(stream, events)
    for event in events:
        assert isinstance(event, erasures.ErasureFenced)
        going = ErasureNamesRow(
            project_id=stream.project_id,
            id=stream.id,
            names=names,
            until=event.fenced_at,
            links_cut=False,
            records=0,
        )
        unit.put(stream, ERASURE_NAMES, going)
    row = unit.row(ERASURES, *stream.name)
    assert row is not None, "an erasure that was accepted has a row"
    return row


# Reads of erasures: by request, by stream, and all open ones.

_ACTIVE = (
    "t.phase <> 'deleted' and exists (select from projects p where p.project_id = t.project_id "
    "and p.id = t.project_id and p.status = 'active')"
)


class ErasureRound(NamedTuple):
    """One round of an erasure, with times in epoch seconds. `records` is the number of removed ones, at its end."""

    project_id: str
    deletion_id: str
    person_hash: str
    phase: str
    names: int
    fenced_at: int
    records: int | None
    deleted_at: int | None


async def person_of(store: EventStore, project_id: str, name: str) -> str:
    """The main name of the person with a name."""
    row = await store.get(NAMINGS, project_id, name)
    return name if row is None else row.person


async def get_erasure(store: EventStore, project_id: str, stream_id: str) -> ErasureRow | None:
    """Read the erasures of a name by the id of their stream."""
    return await store.get(ERASURES, project_id, stream_id)


async def find_request(store: EventStore, project_id: str, command_key_sha256: str) -> ErasureRow | None:
    """Find the erasures of a name, one of them by a request."""
    where = "t.project_id = %s and (t.command_key_sha256 = %s or t.receipts @> %s::jsonb)"
    known = f'[{{"command_key_sha256": "{command_key_sha256}"}}]'
    rows = await store.find(ERASURES, where, project_id, command_key_sha256, known, limit=1)
    return rows[0] if rows else None


async def open_erasures(store: EventStore, most: int) -> list[ErasureRow]:
    """Read the open erasures of active projects, the oldest first."""
    return await store.find(ERASURES, _ACTIVE, order_by="t.fenced_at, t.id", limit=most)


async def waits_for_copy(store: EventStore, row: ErasureRow) -> bool:
    """Whether an erasure waits for the copy of telemetry (G-200)."""
    [[waits]] = await store.fetch(ERASURE_WAITS, deletion_id=row.deletion_id)
    return bool(waits)


def round_of(row: ErasureRow, command_key_sha256: str) -> ErasureRound:
    """The round of a request: the last one of the row, or the receipt of an earlier one."""
    if row.command_key_sha256 != command_key_sha256:
        for one in row.receipts:
            if one.command_key_sha256 == command_key_sha256:
                return ErasureRound(
                    row.project_id, one.deletion_id, row.person_hash, "deleted", one.names, one.fenced_at, one.records,
                    one.deleted_at,
                )  # fmt: skip
    return ErasureRound(
        row.project_id, row.deletion_id, row.person_hash, row.phase, row.names, row.fenced_at, row.records,
        row.deleted_at,
    )  # fmt: skip


# Answers about erasures (G-197).

POLL_AFTER = 1
_AGAIN = "Repeat this request with the same Idempotency-Key until it answers 200."
_OVER = "Keep this receipt. Records under one of the names from now on are those of a new person."


def erasure(found: ErasureRound, *, waits: bool = False) -> UserDeleting | UserDeleted:
    """Show a round of an erasure. `waits`: for the copy of telemetry."""
    if found.deleted_at is None:
        return shape_from(
            UserDeleting,
            found,
            status="deleting",
            phase="purging" if found.phase == "purging" else "fenced",
            poll_after_seconds=POLL_AFTER,
            waits_for="copy" if waits else UNSET,
            next_action=_AGAIN,
        )
    return shape_from(
        UserDeleted, found, status="deleted", phase="deleted", records=found.records or 0, next_action=_OVER
    )


# The keyed hash of a name, for the log and the ledger (G-197). Pure functions. The key is derived from a secret of the
# installation outside the database. Without it, nobody learns from a dump or from the ledger whether a person is in
# it. The installation learns it also after a restore.

_PURPOSE = b"service/person-erasure/v1"


def keys_of(settings: Settings) -> Sequence[bytes]:
    """The keys of hashes: that of new ones first, then the possible keys of older ones."""
    secrets = (settings.encryption_key, settings.signing_key, settings.signing_key_before)
    return [hmac.digest(secret, _PURPOSE, "sha256") for secret in secrets if secret is not None]


def person_hash(key: bytes, project_id: str, name: str) -> str:
    """Hash a name within its project: 64 hexadecimal digits."""
    return hmac.digest(key, f"{project_id}\0{name}".encode("utf-8", "surrogatepass"), "sha256").hex()


# The purge of one person: links, feedback, records, counts by case, in small steps (G-197). After every stop it begins
# anew: only the database knows its progress. A removed record leaves a row without a name, for recurrences and traffic
# to count. Records after the second of the fence stay.

Connection = psycopg.AsyncConnection[tuple[Any, ...]]

BATCH = 1_000
"""Records that one transaction removes."""
REMEMBERED = 25 * 3600
"""Seconds for which the id of an event is known, so that feedback finds it."""
PAIRS = 500
"""Pairs of a case and a name in one transaction. It holds the gate, so nothing of the project is stored meanwhile."""

_GOING = load_query("deletion", "going")
_GATE = load_query("deletion", "hold_gate")
_CUT = load_query("deletion", "cut_person")
_SETTLE_FEEDBACK = load_query("deletion", "settle_feedback")
_ERASE_FEEDBACK = load_query("deletion", "erase_feedback")
_ERASE: Final[Mapping[str, Query]] = {
    "log_events": load_query("deletion", "erase_logs"),
    "analytics_events": load_query("deletion", "erase_analytics"),
}


async def purge_person(conninfo: str, row: ErasureRow, until: float, end: Callable[[], Awaitable[None]]) -> bool:
    """Remove rows until a moment of the monotonic clock, then `end` the erasure if nothing is left.

    Returns whether it has ended. One process at a time does it, and never for an ended round. Raises psycopg.Error,
    and the errors of `end`.
    """
    async with await WatchedConnection.connect(
        conninfo, autocommit=True, application_name="service-purge", connect_timeout=5
    ) as connection:
        await prepare(connection)
        async with alone(connection, f"erasure:{row.project_id}:{row.id}") as free:
            if not free:
                return False
            going = {"project_id": row.project_id, "id": row.id, "deletion_id": row.deletion_id}
            if not await (await connection.execute(_GOING, going)).fetchall():
                return False
            try:
                if not await _pass(connection, row, until):
                    return False
                if not await may_end(connection, row.deletion_id, row.project_id, row.id):
                    return False
            except (
                psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected, psycopg.errors.UndefinedTable,
            ):  # fmt: skip
                return False  # Another statement holds a row or the gate, or retention dropped a partition.
            await replicate(connection)
            await end()
            return True


async def _pass(connection: Connection, row: ErasureRow, until: float) -> bool:
    erasure = {"project_id": row.project_id, "id": row.id}
    if await _cut(connection, row, 0) is None:
        return False
    # First, as the rows that say whose error somebody wrote about are about to go.
    await connection.execute(_SETTLE_FEEDBACK, {"project_id": row.project_id, "seconds": REMEMBERED})
    if not await _empty(connection, _ERASE_FEEDBACK, erasure, until):
        return False
    for telemetry, query in _ERASE.items():
        looked: list[str] = []
        # A row of the default partition, which comes last, moves to that of its day once there is one.
        while (tables := await partitions_of(connection, telemetry)) != looked:
            looked = tables
            for table in tables:
                if not await _empty(connection, query.filled(table=table), erasure, until):
                    return False
    # Last, as retention makes samples of records: nothing is left to make one of.
    pairs: int | None = PAIRS
    while pairs == PAIRS:
        began = time.monotonic()
        pairs = await _cut(connection, row, PAIRS)
        await leave_room(began)
        if pairs == PAIRS and time.monotonic() >= until:
            return False
    return True


async def _empty(connection: Connection, query: Query, erasure: Mapping[str, str], until: float) -> bool:
    """Erase rows by a query, step by step. Returns False when the time is over before the last one."""
    gone = BATCH
    while gone == BATCH:
        began = time.monotonic()
        [[gone]] = await (await connection.execute(query, {**erasure, "most": BATCH})).fetchall()
        await leave_room(began)
        if gone == BATCH and time.monotonic() >= until:
            return False
    return True


async def _cut(connection: Connection, row: ErasureRow, most: int) -> int | None:
    """Cut links and some pairs of a case and a name. Returns the number of pairs, None before the fence is over."""
    async with connection.transaction():
        await connection.execute(_GATE, {"gate": names.lock_number(names.gate(row.project_id))})
        values = {"project_id": row.project_id, "id": row.id, "most": most}
        [[pairs]] = await (await connection.execute(_CUT, values)).fetchall()
    return None if pairs is None else int(pairs)


# What moves an erasure on from its fence to its receipt: repeats of the request, and the sweep (G-197, G-119). The
# erasure is written to the ledger, the purge begins, and with the last row the erasure ends. Each step reads the
# present phase, so any process goes on after the stop of another, and two at once do no harm.

T = TypeVar("T")

log = structlog.get_logger(__name__)

SECONDS = 0.25
"""Of work on an erasure in one request. The sweep does the rest."""
LONGEST = 20.0
"""Seconds of one sweep. The next one goes on."""
_PHASE_OF_PERSON = load_query("deletion", "phase_of_person")
_NOT_NOW = (Rejection, CommandNotDone, OutcomeUnknown, psycopg.Error, OSError)


class Eraser:
    """Moves erasures on. `keys` are those of hashes, that of new ones first."""

    def __init__(self, store: EventStore, ledger: Path, keys: Sequence[bytes]) -> None:
        self._store = store
        self._ledger = ledger
        self._keys = keys

    @classmethod
    def of(cls, store: EventStore, settings: Settings) -> Eraser:
        """Make one by the settings of the process."""
        return cls(store, settings.erasure_ledger, keys_of(settings))

    def hash_of(self, project_id: str, name: str) -> str:
        """The keyed hash of a name."""
        return person_hash(self._keys[0], project_id, name)

    async def ask(
        self,
        project_id: str,
        name: str,
        who: tuple[str, str],
        fence: Callable[[Intent[ErasureRow]], Awaitable[T]],
    ) -> ErasureRow | T:
        """Begin the erasure of a person by `fence`, and return its answer, or move the erasure on.

        `who` are the caller and the Idempotency-Key. Raises OtherErasure, and the errors of `fence`.
        """
        request = request_sha256(*who, self.hash_of(project_id, name))

        async def attempt() -> ErasureRow | T:
            row = await find_request(self._store, project_id, request)
            if row is not None:
                return await self.move_on(row, SECONDS)
            person = await person_of(self._store, project_id, name)
            wish = AskForErasure(new_id("del"), self.hash_of(project_id, person), request)
            return await fence(fence_person(project_id, name, person, wish))

        return await retry_moved(attempt)

    async def move_on(self, row: ErasureRow, seconds: float) -> ErasureRow:
        """Take an erasure as far as it goes now, and return its row. The sweep does the rest."""
        try:
            return await self.advance(row, seconds)
        except _NOT_NOW as error:
            log.warning("erasure_not_moved_on", erasure=row.deletion_id, phase=row.phase, cause=type(error).__name__)
            return await self._latest(row)

    async def advance(self, row: ErasureRow, seconds: float) -> ErasureRow:
        """Take an erasure as far as it goes within some seconds, and return its row.

        Raises the errors of the store, psycopg.Error, and OSError for the ledger.
        """
        until = time.monotonic() + seconds
        while row.phase != "deleted":
            if row.phase == "fenced":
                await self._remember(row)
                await self._send(row, "begin", begin(row))
            elif not await self._purge(row, until):
                break
            row = await self._latest(row)
            if time.monotonic() >= until:
                break
        return row

    async def _purge(self, row: ErasureRow, until: float) -> bool:
        async def end() -> None:
            await self._send(row, "complete", complete(row))

        return await purge_person(self._store.conninfo, row, until, end)

    async def _remember(self, row: ErasureRow) -> None:
        """Write the erasure to the ledger: on the disk before the first row goes, after the fence is on a standby."""
        of_row = {"project_id": row.project_id, "id": row.id, "deletion_id": row.deletion_id}
        if self._store.listed and await self._store.see_replicated(_PHASE_OF_PERSON, **of_row) != [(row.phase,)]:
            raise CommandNotDone
        going = await self._store.get(ERASURE_NAMES, row.project_id, row.id)
        names = [] if going is None else going.names
        hashes = dict.fromkeys([row.person_hash, *(self.hash_of(row.project_id, name) for name in names)])
        erasure = PersonErasure(row.project_id, row.deletion_id, row.fenced_at, list(hashes))
        await asyncio.to_thread(remember, self._ledger, erasure)

    async def _latest(self, row: ErasureRow) -> ErasureRow:
        return await get_erasure(self._store, row.project_id, row.id) or row

    async def _send(self, row: ErasureRow, step: str, intent: Intent[T]) -> T:
        return await carry_out(self._store, "deletion", f"erasure {step}", intent, project=row.project_id)


async def sweep_erasures(store: EventStore, eraser: Eraser, longest: float = LONGEST) -> int:
    """Move every open erasure on, in turn by project, for some seconds. Returns the number of ended ones.

    Raises psycopg.Error when the database is gone.
    """
    until = time.monotonic() + longest
    return await move_all(
        partial(open_erasures, store, AT_MOST),
        partial(eraser.move_on, seconds=SLICE),
        attrgetter("project_id"),
        until,
    )


# Erasing again the people of the ledger in a restored database. The ledger knows hashes alone, so each name in the
# project is hashed and looked up. That happens once. The database knows the erasure from then on, also one of nobody.

RESTORED_SLICE = 5.0
PAUSE = 0.2
SOME = 5_000
"""Names in one read."""

_UNKNOWN = load_query("deletion", "unknown_erasures")
_NAMES = load_query("deletion", "names_of_project")


def people_to_erase_again(conninfo: str, ledger: Path) -> list[PersonErasure]:
    """Name the erasures of the ledger in present projects, without those known to the database.

    Raises psycopg.Error, and OSError for the ledger.
    """
    known = people_erased(ledger)
    if not known:
        return []
    with psycopg.connect(conninfo, autocommit=True, application_name="service-restore") as connection:
        columns = {
            "places": list(range(len(known))),
            "projects": [one.project_id for one in known],
            "streams": [stream(one.project_id, one.names[0]).id for one in known],
            "untils": [one.until for one in known],
        }
        return [known[place] for (place,) in connection.execute(_UNKNOWN, columns).fetchall()]


async def erase_people_again(
    conninfo: str, ledger: Path, keys: Sequence[bytes], found: Sequence[PersonErasure]
) -> None:
    """Erase the people of these erasures, to the end. Raises the errors of the store, psycopg.Error and OSError."""
    store = EventStore(conninfo, registry())
    await store.start()
    try:
        eraser = Eraser(store, ledger, keys)
        for erasure in found:
            log.warning("erasing_person_again", project=erasure.project_id, erasure=erasure.deletion_id)
            await _again(store, eraser, keys, erasure)
    finally:
        await store.stop()


async def _again(store: EventStore, eraser: Eraser, keys: Sequence[bytes], erasure: PersonErasure) -> None:
    names = [name async for name in _named(store, keys, erasure)]
    # The key of the request was not kept: its receipt is not shown again.
    wish = AskForErasure(erasure.deletion_id, erasure.names[0], f"ledger:{erasure.deletion_id}", erasure.until)
    before = await get_erasure(store, erasure.project_id, stream(erasure.project_id, erasure.names[0]).id)
    if before is not None:  # An earlier round of the name, which the backup may have caught in the middle.
        before = await _to_its_end(store, eraser, before)
        if before.phase != "deleted":  # The next start finds the rest: one round of a name goes at a time.
            return
    intent = fence_names(erasure.project_id, names, wish)
    row = await carry_out(store, "deletion", "erasure again", intent, project=erasure.project_id)
    await _to_its_end(store, eraser, row)


async def _to_its_end(store: EventStore, eraser: Eraser, row: ErasureRow) -> ErasureRow:
    """Advance an erasure until it has ended, or waits for the copy of telemetry. The sweep ends it then (G-200)."""
    while row.phase != "deleted":
        before = row
        row = await eraser.advance(row, RESTORED_SLICE)
        if row.phase != "deleted" and await waits_for_copy(store, row):
            break
        if row == before:
            await asyncio.sleep(PAUSE)
    return row


async def _named(store: EventStore, keys: Sequence[bytes], erasure: PersonErasure) -> AsyncIterator[str]:
    """The names of a project with one of the hashes."""
    wanted, after = set(erasure.names), ""
    while True:
        rows = await store.fetch(_NAMES, project_id=erasure.project_id, after=after, most=SOME)
        for (name,) in rows:
            if any(person_hash(key, erasure.project_id, name) in wanted for key in keys):
                yield name
        if len(rows) < SOME:
            return
        after = rows[-1][0]
