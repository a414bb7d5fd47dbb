"""The sweep of deletions: moves on what is open, an account's share at a time, and ends receipts (G-119, P25)."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from operator import attrgetter
from typing import TypeVar

import psycopg

from projections.deletion.erasure import ErasureRow
from projections.deletion.removal import DeletionRow
from service.auth.system import carry_out
from service.deletion import commands, reads
from service.deletion.advancing import Advancer, tell_not_moved_on
from service.eventstore.declare.commands import OutcomeUnknown
from service.eventstore.store import EventStore
from service.fairness.not_done import CommandNotDone
from statemachines.kernel.machine import Rejection

Row = TypeVar("Row", DeletionRow, ErasureRow)

AT_MOST = 500
SLICE = 1.0
"""Seconds that one deletion takes in its turn."""
LONGEST = 50.0
"""Seconds after which a sweep leaves the rest to the next one."""
PAUSE = 0.2


async def sweep(store: EventStore, advancer: Advancer, longest: float = LONGEST) -> int:
    """Move every open deletion on, in turn by account, until none is open or the time is over; returns how many ended.

    Raises psycopg.Error when the database is gone.
    """
    until = time.monotonic() + longest
    for row in await reads.lapsed_receipts(store, AT_MOST):
        await carry_out(store, "deletion", "deletion lapse", commands.lapse(row))
    return await move_all(
        partial(reads.open_deletions, store, AT_MOST), partial(_advance, advancer), attrgetter("account_id"), until
    )


async def move_all(
    read_open: Callable[[], Awaitable[list[Row]]],
    move: Callable[[Row], Awaitable[Row]],
    tenant_of: Callable[[Row], str],
    until: float,
) -> int:
    """Move everything open on, in turn by tenant, until nothing is open or it is `until` (monotonic seconds).

    Returns the number of ended ones. Raises as the two calls.
    """
    ended = 0
    while (rows := await read_open()) and time.monotonic() < until:
        moved = False
        for row in in_turn(rows, tenant_of):
            after = await move(row)
            ended += after.phase == "deleted"
            moved = moved or after != row
            if time.monotonic() >= until:
                break
        if not moved:
            await asyncio.sleep(PAUSE)
    return ended


async def _advance(advancer: Advancer, row: DeletionRow) -> DeletionRow:
    try:
        return await advancer.advance(row, SLICE)
    except (Rejection, CommandNotDone, OutcomeUnknown, psycopg.Error, OSError) as error:
        # One that cannot go on holds up nobody else's.
        tell_not_moved_on(row, error, advancer.ledger)
        return row


def in_turn(rows: list[Row], tenant_of: Callable[[Row], str]) -> list[Row]:
    """Order rows so that each tenant's first come before anybody's second."""
    places: Counter[str] = Counter()
    ordered = []
    for number, row in enumerate(rows):
        tenant = tenant_of(row)
        ordered.append((places[tenant], number, row))
        places[tenant] += 1
    return [row for _, _, row in sorted(ordered, key=lambda item: item[:2])]
