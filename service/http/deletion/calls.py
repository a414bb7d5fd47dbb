"""What both doors of deletion do with a request: begin, or move on, and show where the deletion is (G-130)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from projections.deletion.removal import DeletionRow
from service.deletion import reads
from service.deletion.asking import ask
from service.deletion.reads import DeletionLeft
from service.eventstore.declare.commands import Answer, Outcome
from service.http.edge.declare.call import Call
from statemachines.deletion.removal import AskForDeletion

Show = Callable[[DeletionRow, DeletionLeft | None], Any]


async def deleting(call: Call[Any, None], wish: AskForDeletion, show: Show) -> Outcome | Answer:
    """Carry the wish out or on: 202 until the receipt, then 200. Raises what `ask` raises."""
    shown = partial(_shown, show)
    fence = partial(call.carry_out, render=shown)
    found = await ask(call.services.store, call.services.settings.erasure_ledger, wish, fence)
    if isinstance(found, DeletionRow):
        left = None if found.phase == "deleted" else await reads.progress_of(call.services.store, found)
        return _shown(show, found, left)
    call.services.authenticator.forget()
    return found


def _shown(show: Show, row: DeletionRow, left: DeletionLeft | None = None) -> Answer:
    return Answer(200 if row.phase == "deleted" else 202, show(row, left), pending=True)
