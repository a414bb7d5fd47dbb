"""What moves an erasure on from its fence to its receipt: repeats of the request, and the sweep (G-197, G-119).

The erasure is written to the ledger, the purge begins, and with the last row the erasure ends. Each step reads the
present phase, so any process goes on after the stop of another, and two at once do no harm.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

import psycopg
import structlog

from projections.deletion.erasure import ERASURE_NAMES, ErasureRow
from service.auth.system import carry_out
from service.deletion.ledger import PersonErasure, remember
from service.deletion.people import commands, reads
from service.deletion.people.naming import keys_of, person_hash
from service.deletion.people.purging import purge_person
from service.deletion.sweeping import AT_MOST, SLICE, move_all
from service.eventstore.declare.commands import OutcomeUnknown
from service.eventstore.declare.intents import Intent, retry_moved
from service.eventstore.store import EventStore
from service.fairness.not_done import CommandNotDone
from service.ids import new_id
from service.settings import Settings
from statemachines.deletion.erasure import AskForErasure, request_sha256
from statemachines.kernel.machine import Rejection

T = TypeVar("T")

log = structlog.get_logger(__name__)

SECONDS = 0.25
"""Of work on an erasure in one request. The sweep does the rest."""
LONGEST = 20.0
"""Seconds of one sweep. The next one goes on."""
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
            row = await reads.find_request(self._store, project_id, request)
            if row is not None:
                return await self.move_on(row, SECONDS)
            person = await reads.person_of(self._store, project_id, name)
            wish = AskForErasure(new_id("del"), self.hash_of(project_id, person), request)
            return await fence(commands.fence_person(project_id, name, person, wish))

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
                await self._send(row, "begin", commands.begin(row))
            elif not await self._purge(row, until):
                break
            row = await self._latest(row)
            if time.monotonic() >= until:
                break
        return row

    async def _purge(self, row: ErasureRow, until: float) -> bool:
        async def end() -> None:
            await self._send(row, "complete", commands.complete(row))

        return await purge_person(self._store.conninfo, row, until, end)

    async def _remember(self, row: ErasureRow) -> None:
        """Write the erasure to the ledger: on the disk before the first row goes."""
        going = await self._store.get(ERASURE_NAMES, row.project_id, row.id)
        names = [] if going is None else going.names
        hashes = dict.fromkeys([row.person_hash, *(self.hash_of(row.project_id, name) for name in names)])
        erasure = PersonErasure(row.project_id, row.deletion_id, row.fenced_at, list(hashes))
        await asyncio.to_thread(remember, self._ledger, erasure)

    async def _latest(self, row: ErasureRow) -> ErasureRow:
        return await reads.get_erasure(self._store, row.project_id, row.id) or row

    async def _send(self, row: ErasureRow, step: str, intent: Intent[T]) -> T:
        return await carry_out(self._store, "deletion", f"erasure {step}", intent, project=row.project_id)


async def sweep_erasures(store: EventStore, eraser: Eraser, longest: float = LONGEST) -> int:
    """Move every open erasure on, in turn by project, for some seconds. Returns the number of ended ones.

    Raises psycopg.Error when the database is gone.
    """
    until = time.monotonic() + longest
    return await move_all(
        partial(reads.open_erasures, store, AT_MOST),
        partial(eraser.move_on, seconds=SLICE),
        attrgetter("project_id"),
        until,
    )
