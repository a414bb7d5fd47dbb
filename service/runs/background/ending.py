"""Recording that what was open in a project has ended with it, after its deletion fence (G-130).

The fence is what stops authority: every command meets it under the gate, and every read shows what was open as ended.
Here that is written down, object by object, in the words of their machines.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from projections.kernel.projection import Table
from projections.runs.claim import PROJECTION as CLAIMS
from projections.runs.receipt import PROJECTION as RECEIPTS
from projections.runs.run import PROJECTION as RUNS
from projections.runs.run import RunRow
from service.auth.system import carry_out
from service.eventstore.declare.intents import Intent, retry_moved
from service.eventstore.store import EventStore
from service.runs import commands

R = TypeVar("R", bound=msgspec.Struct)

# Runs first: each takes its claim, its grants and its requests along.
_OPEN: tuple[tuple[str, Table[Any], str, Callable[[Any], Intent[Any]]], ...] = (
    ("runs", RUNS.table, "t.live", commands.run.fence),
    ("receipts", RECEIPTS.table, "t.status in ('issued', 'claimed')", commands.receipt.fence),
    ("claims", CLAIMS.table, "t.status = 'active'", commands.claim.fence),
)
_FOLLOW_UPS = "t.project_id = %s and jsonb_array_length(t.state -> 'follow_ups') > 0"


async def end_open(store: EventStore, project_id: str, most: int) -> bool:
    """End at most `most` open objects of a fenced project; returns whether none is left.

    Raises what the store raises.
    """
    for name, table, where, command in _OPEN:
        rows = await store.find(table, f"t.project_id = %s and {where}", project_id, order_by="t.id", limit=most)
        for row in rows:
            await _end(store, name, table, row, command)
        if rows:
            return False
    return True


async def _end(store: EventStore, name: str, table: Table[R], row: R, command: Callable[[R], Intent[Any]]) -> None:
    key: Any = row

    async def attempt() -> None:
        latest = await store.get(table, key.project_id, key.id)
        if latest is not None:
            await carry_out(store, "deletion", f"end {name}", command(latest), gates=[key.project_id])

    await retry_moved(attempt)


async def runs_to_follow_up(store: EventStore, project_id: str, most: int) -> list[RunRow]:
    """Read the first runs, by id, that left something outside for a person to look at."""
    return await store.find(RUNS.table, _FOLLOW_UPS, project_id, order_by="t.id", limit=most)
