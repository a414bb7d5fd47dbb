"""The purge of one person: links, feedback, records, counts by case, in small steps (G-197).

After every stop it begins anew: only the database knows its progress. A removed record leaves a row without a name, for
recurrences and traffic to count. Records after the second of the fence stay.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import psycopg

from projections.deletion.erasure import ErasureRow
from service.eventstore.declare import names
from service.eventstore.declare.sqlfiles import load_sql, on_table
from service.eventstore.declare.steps import alone, leave_room, prepare
from service.eventstore.schema.partitioned import partitions_of

Connection = psycopg.AsyncConnection[tuple[Any, ...]]

BATCH = 1_000
"""Records that one transaction removes."""
REMEMBERED = 25 * 3600
"""Seconds for which the id of an event is known, so that feedback finds it."""
PAIRS = 500
"""Pairs of a case and a name in one transaction. It holds the gate, so nothing of the project is stored meanwhile."""

_GOING = load_sql("deletion", "going")
_GATE = load_sql("deletion", "hold_gate")
_CUT = load_sql("deletion", "cut_person")
_SETTLE_FEEDBACK = load_sql("deletion", "settle_feedback")
_ERASE_FEEDBACK = load_sql("deletion", "erase_feedback")
_ERASE: Final[Mapping[str, str]] = {
    "log_events": load_sql("deletion", "erase_logs"),
    "analytics_events": load_sql("deletion", "erase_analytics"),
}


async def purge_person(conninfo: str, row: ErasureRow, until: float, end: Callable[[], Awaitable[None]]) -> bool:
    """Remove rows until a moment of the monotonic clock, then `end` the erasure if nothing is left.

    Returns whether it has ended. One process at a time does it, and never for an ended round. Raises psycopg.Error,
    and the errors of `end`.
    """
    async with await psycopg.AsyncConnection.connect(
        conninfo, autocommit=True, application_name="service-purge", connect_timeout=5
    ) as connection:
        await prepare(connection)
        async with alone(connection, f"erasure:{row.project_id}:{row.id}") as free:
            if not free:
                return False
            going = {"project_id": row.project_id, "id": row.id, "deletion_id": row.deletion_id}
            if not await (await connection.execute(_GOING.encode(), going)).fetchall():
                return False
            try:
                if not await _pass(connection, row, until):
                    return False
            except (
                psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected, psycopg.errors.UndefinedTable,
            ):  # fmt: skip
                return False  # Another statement holds a row or the gate, or retention dropped a partition.
            await end()
            return True


async def _pass(connection: Connection, row: ErasureRow, until: float) -> bool:
    erasure = {"project_id": row.project_id, "id": row.id}
    if await _cut(connection, row, 0) is None:
        return False
    # First, as the rows that say whose error somebody wrote about are about to go.
    await connection.execute(_SETTLE_FEEDBACK.encode(), {"project_id": row.project_id, "seconds": REMEMBERED})
    if not await _empty(connection, _ERASE_FEEDBACK, erasure, until):
        return False
    for telemetry, query in _ERASE.items():
        looked: list[str] = []
        # A row of the default partition, which comes last, moves to that of its day once there is one.
        while (tables := await partitions_of(connection, telemetry)) != looked:
            looked = tables
            for table in tables:
                if not await _empty(connection, on_table(query, table), erasure, until):
                    return False
    # Last, as retention makes samples of records: nothing is left to make one of.
    pairs: int | None = PAIRS
    while pairs == PAIRS:
        began = time.monotonic()
        pairs = await _cut(connection, row, PAIRS)
        await leave_room(began)
        if pairs == PAIRS and time.monotonic() >= until:
            return False
    return True


async def _empty(connection: Connection, query: str, erasure: Mapping[str, str], until: float) -> bool:
    """Erase rows by a query, step by step. Returns False when the time is over before the last one."""
    gone = BATCH
    while gone == BATCH:
        began = time.monotonic()
        [[gone]] = await (await connection.execute(query.encode(), {**erasure, "most": BATCH})).fetchall()
        await leave_room(began)
        if gone == BATCH and time.monotonic() >= until:
            return False
    return True


async def _cut(connection: Connection, row: ErasureRow, most: int) -> int | None:
    """Cut links and some pairs of a case and a name. Returns the number of pairs, None before the fence is over."""
    async with connection.transaction():
        await connection.execute(_GATE.encode(), {"gate": names.lock_number(names.gate(row.project_id))})
        values = {"project_id": row.project_id, "id": row.id, "most": most}
        [[pairs]] = await (await connection.execute(_CUT.encode(), values)).fetchall()
    return None if pairs is None else int(pairs)
