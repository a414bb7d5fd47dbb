"""What both doors of deletion do with a request: begin, or move on, and show where the deletion is (G-130)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from projections.deletion import DeletionRow
from schemas.kernel.shape import WaitQuery
from service.deletion import removal
from service.deletion.advancing import ask
from service.deletion.removal import DeletionLeft
from service.eventstore.declare.commands import Answer, Outcome
from service.http.edge.declare.call import Call
from statemachines.deletion.removal import AskForDeletion

_OVER = "deleted"

Show = Callable[[DeletionRow, DeletionLeft | None], Any]


async def deleting(call: Call[Any, WaitQuery], wish: AskForDeletion, show: Show) -> Outcome | Answer:
    """Carry the wish out or on: 202 until the receipt, then 200. Raises what `ask` raises.

    A repeat may wait for the next phase of the deletion. The sweep moves it on meanwhile.
    """
    store = call.services.store
    fence = partial(call.carry_out, render=partial(_shown, show))
    found = await ask(store, call.services.settings.erasure_ledger, wish, fence)
    if not isinstance(found, DeletionRow):
        call.services.authenticator.forget()
        return found
    if found.phase != _OVER and call.waiting is not None:
        await call.listen(found.id)
        found = await removal.get_deletion(store, found.id) or found
    if found.phase == _OVER:
        return _shown(show, found)
    call.saw(found.revision)
    body = show(found, await removal.progress_of(store, found))
    if call.waiting is not None:
        body = msgspec.structs.replace(body, revision=found.revision)
    return Answer(202, body, pending=True)


def _shown(show: Show, row: DeletionRow, left: DeletionLeft | None = None) -> Answer:
    return Answer(200 if row.phase == _OVER else 202, show(row, left), pending=True)
