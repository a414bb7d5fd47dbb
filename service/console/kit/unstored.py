"""Commands with a secret in their result."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, TypeVar

from service.eventstore.declare.commands import Answer
from service.eventstore.declare.intents import Intent
from service.http.edge.declare.call import Call

T = TypeVar("T")


async def carry_out_unstored(call: Call[Any, Any], intent: Intent[T]) -> T:
    """Carry out an intent, and keep its result out of the stored answer. Raises as `Call.carry_out`."""
    made: list[T] = []

    def keep(result: T) -> Answer:
        made.append(result)
        return Answer(HTTPStatus.NO_CONTENT, None, pending=True)

    await call.carry_out(intent, keep)
    return made[-1]
