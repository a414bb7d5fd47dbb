"""A request to delete: the first fences; each repeat moves the deletion on for a moment, and shows where it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import psycopg

from projections.deletion.removal import DeletionRow
from service.deletion import commands, reads
from service.deletion.advancing import Advancer, tell_not_moved_on
from service.eventstore.declare.commands import OutcomeUnknown
from service.eventstore.declare.intents import Intent, retry_moved
from service.eventstore.store import EventStore
from service.fairness.not_done import CommandNotDone
from service.ids import new_id
from statemachines.deletion.removal import AskForDeletion, OtherDeletion
from statemachines.kernel.machine import Rejection
from statemachines.projects.project import ProjectNotFound

T = TypeVar("T")

SECONDS = 0.25
"""How long one request works on a deletion; the sweep does the rest, in turn with others'."""


async def ask(
    store: EventStore, ledger: Path, wish: AskForDeletion, fence: Callable[[Intent[DeletionRow]], Awaitable[T]]
) -> DeletionRow | T:
    """Begin a deletion by `fence`, whose answer this returns, or move on the one that the wish has begun before.

    Raises what `fence` raises, OtherDeletion for another request under way, and ProjectNotFound after its end.
    """

    async def attempt() -> DeletionRow | T:
        row = await _find(store, wish)
        if row is None:
            if wish.kind == "project":
                return await fence(commands.fence_project(wish, new_id("del")))
            owned = await reads.owned_by(store, wish.scope_id)
            return await fence(commands.fence_account(wish, new_id("del"), owned))
        if row.command_key_sha256 == wish.command_key_sha256:
            return await _moved_on(store, ledger, row)
        if wish.kind == "project" and row.phase != "fenced":
            raise ProjectNotFound("There is no such project.")
        raise OtherDeletion("Another request has begun this deletion.", next_action="Repeat that one, with its key.")

    return await retry_moved(attempt)


async def _find(store: EventStore, wish: AskForDeletion) -> DeletionRow | None:
    if wish.kind == "account":
        return await reads.find_account_deletion(store, wish.scope_id, wish.api_key_sha256)
    return await reads.find_deletion(store, wish.scope_id)


async def _moved_on(store: EventStore, ledger: Path, row: DeletionRow) -> DeletionRow:
    """Move a deletion on; returns it as it is then. What cannot go on now goes on with the next repeat or sweep."""
    try:
        return await Advancer(store, ledger).advance(row, SECONDS)
    except (Rejection, CommandNotDone, OutcomeUnknown, psycopg.Error, OSError) as error:
        tell_not_moved_on(row, error, ledger)
        return await reads.get_deletion(store, row.id) or row
