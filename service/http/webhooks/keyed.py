"""Requests whose act is not part of a command: queued again, replayed, tested (G-007, G-008).

Such a request is answered from the record of its key before it acts, or binds its key first. So a repeat after the
answer acts no second time, nor does the same key with another body. Of twins at the same time, the facts themselves
let one act: they keep the mark of the request.
"""

from __future__ import annotations

from typing import Any

from service.eventstore.declare.commands import Answer, Outcome
from service.http.edge.declare.call import Call
from service.webhooks import webhook
from statemachines.kernel.machine import derived_id


async def answered(call: Call[Any, Any]) -> Outcome | None:
    """The answer stored under the key of a request to a webhook. None: its key is bound to it now, or it has none.

    Raises WebhookNotFound, and what the store raises.
    """
    if call.key is None:
        return None
    found = await call.carry_out(webhook.look_at(call.project_id, call.path["id"]), _bound)
    return found if found.replayed else None


def mark(call: Call[Any, Any], prefix: str) -> str | None:
    """An id made from the request's key, path and caller. None without a key."""
    if call.key is None:
        return None
    return derived_id(prefix, call.scope["path"], f"{call.principal.kind.value}:{call.principal.id}", call.key)


def _bound(_: None) -> Answer:
    return Answer(200, None, pending=True)
