"""Erasing again the people of the ledger in a restored database.

The ledger knows hashes alone, so each name in the project is hashed and looked up. That happens once. The database
knows the erasure from then on, also one of nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import psycopg
import structlog

from projections.deletion.erasure import ErasureRow
from service.auth.system import carry_out
from service.deletion.ledger import PersonErasure, people_erased
from service.deletion.people import commands, reads
from service.deletion.people.advancing import Eraser
from service.deletion.people.naming import person_hash
from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.store import EventStore
from service.registry import registry
from statemachines.deletion.erasure import AskForErasure, stream

log = structlog.get_logger(__name__)

SLICE = 5.0
PAUSE = 0.2
SOME = 5_000
"""Names in one read."""

_UNKNOWN = load_sql("deletion", "unknown_erasures")
_NAMES = load_sql("deletion", "names_of_project")


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
        return [known[place] for (place,) in connection.execute(_UNKNOWN.encode(), columns).fetchall()]


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
    before = await reads.get_erasure(store, erasure.project_id, stream(erasure.project_id, erasure.names[0]).id)
    if before is not None:  # An earlier round of the name, which the backup may have caught in the middle.
        await _to_its_end(eraser, before)
    intent = commands.fence_names(erasure.project_id, names, wish)
    await _to_its_end(eraser, await carry_out(store, "deletion", "erasure again", intent, project=erasure.project_id))


async def _to_its_end(eraser: Eraser, row: ErasureRow) -> None:
    while row.phase != "deleted":
        before = row
        row = await eraser.advance(row, SLICE)
        if row == before:
            await asyncio.sleep(PAUSE)


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
