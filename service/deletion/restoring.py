"""Erasing again what a restored database still holds although it was erased, and looking for what is left.

A backup from before a deletion brings its project or account back. Before the service is ready, whatever the ledger
names and this database does not know to be deleted is deleted once more, by the same steps and under the same id. A
deletion whose purge had begun is left to the sweep: nobody sees anything of it. Scopes that this database never had are
another's, and so is an account that came into being after the erasure: whoever signs in again is somebody new.
Which of them there are is asked in survivors.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import psycopg
import structlog

from projections.deletion import DeletionRow
from service.auth.authority import carry_out
from service.deletion import removal
from service.deletion.advancing import Advancer
from service.deletion.ledger import Erasure, erasures
from service.eventstore.store import EventStore
from service.registry import registry
from service.sql import load_query
from statemachines.deletion.removal import AskForDeletion

# Erasing again what a restored database still holds although it was erased (the ledger says so).

log = structlog.get_logger(__name__)

SLICE = 5.0
PAUSE = 0.2


async def erase_again(conninfo: str, ledger: Path, found: Sequence[Erasure]) -> None:
    """Delete what was found, to the end. Raises what the store raises, psycopg.Error and OSError."""
    store = EventStore(conninfo, registry())
    await store.start()
    try:
        advancer = Advancer(store, ledger)
        for erasure in found:
            row = await _fenced(store, erasure)
            log.warning("erasing_again", scope=erasure.scope_id, deletion=erasure.deletion_id)
            if row is not None:
                await _to_its_end(store, advancer, row)
    finally:
        await store.stop()


async def _fenced(store: EventStore, erasure: Erasure) -> DeletionRow | None:
    """The deletion of an erasure, begun again under its id; None when its scope went with an account's by now."""
    row = await removal.get_deletion(store, erasure.deletion_id)
    if row is not None:
        return row
    account = erasure.scope_id.startswith("usr_")
    wish = AskForDeletion(
        kind="account" if account else "project",
        scope_id=erasure.scope_id,
        account_id=erasure.scope_id if account else "",
        # The key of the request was not kept: its receipt is not shown again.
        command_key_sha256="",
    )
    if await removal.find_deletion(store, erasure.scope_id) is not None:
        return None
    if account:
        owned = await removal.owned_by(store, erasure.scope_id)
        again = removal.fence_account(wish, erasure.deletion_id, owned)
    else:
        again = removal.fence_project(wish, erasure.deletion_id)
    return await carry_out(store, "deletion", "deletion again", again)


async def _to_its_end(store: EventStore, advancer: Advancer, row: DeletionRow) -> None:
    """Advance a deletion, and those that it takes along, until it has ended."""
    while row.phase != "deleted":
        before = row
        for child in await removal.taken_along(store, row.id):
            await advancer.advance(child, SLICE)
        row = await advancer.advance(row, SLICE)
        if row == before:
            await asyncio.sleep(PAUSE)


# What the ledger of erasures names and a database holds all the same, because a backup was restored (restoring.py).
# Asked at each start, so this loads neither a machine nor the store.

_ALIVE = load_query("deletion", "alive")


def to_erase_again(conninfo: str, ledger: Path) -> list[Erasure]:
    """Name what was erased and is in the database all the same. Raises psycopg.Error, and OSError for the ledger."""
    known = erasures(ledger)
    if not known:
        return []
    with psycopg.connect(conninfo, autocommit=True, application_name="service-restore") as connection:
        scopes, deletions, times = map(list, zip(*known, strict=True))
        values = {"scopes": scopes, "deletions": deletions, "times": times}
        return [Erasure(*row) for row in connection.execute(_ALIVE, values).fetchall()]
