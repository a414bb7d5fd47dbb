"""What an account's quota does to an answer: a notice beside it, or 402 in its place (R-BILL-11 to R-BILL-16, G-072).

The account is that of the project in scope, else the caller's own (G-017).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from service.auth.refusals import QuotaExceeded
from service.billing.usage import Told
from service.eventstore.declare.commands import Answer, Outcome
from service.http.edge.answer.reply import JSON
from service.http.edge.answer.streamed import Streamed
from service.http.edge.declare.call import Call


async def notice_beside(call: Call[Any, Any]) -> bytes:
    """What to say to a person about the quota, as JSON; empty for anybody else (R-BILL-16)."""
    operation = call.operation
    if not call.principal.kind.is_person or operation.sealed or operation.content_type != JSON:
        return b""
    return (await _standing(call)).notice


async def behind_quota(
    call: Call[Any, Any], handler: Callable[[Call[Any, Any]], Awaitable[Outcome | Answer | Streamed]]
) -> Outcome | Answer | Streamed:
    """Answer a `quota_locked` operation. Raises QuotaExceeded while the account is over its quota.

    What was answered under a key before is answered again all the same, and what does not exist is not found
    (G-007): both show in the unit alone, so a request with a key goes as far as its command.
    """
    if not (await _standing(call)).locked:
        return await handler(call)
    refused = QuotaExceeded()
    if call.key is None:
        raise refused
    call.locked = refused
    outcome = await handler(call)
    if isinstance(outcome, Outcome) and outcome.replayed:
        return outcome
    raise refused


async def _standing(call: Call[Any, Any]) -> Told:
    return await call.services.notices.of(call.scope_id, call.principal.user_id)
