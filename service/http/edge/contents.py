"""Checking the content of a body of good form at a door (G-006)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from schemas.kernel.published import body_schema
from service.http.edge.declare.call import Call
from statemachines.onboarding.plan import PlanRefused

T = TypeVar("T")


async def check_content(call: Call[Any, None], check: Callable[[], T]) -> T:
    """Carry out a pure check of the body: apart when the body is large. A refusal shows the operation's schema.

    Raises PlanRefused.
    """
    try:
        return await call.work_on_body(check)
    except PlanRefused as refused:
        refused.details["request_body_schema"] = body_schema(call.operation.body)
        raise
