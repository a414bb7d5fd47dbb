"""What long work in small steps shares: one process at a time does it, and after each step it leaves room."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg

from service.eventstore.declare import names

Connection = psycopg.AsyncConnection[tuple[Any, ...]]

REST = 2.0
"""How long is rested after a step, as a multiple of its time: a busy machine makes steps long, and so the rests."""
SETTINGS = (
    "statement_timeout = '10s'",
    "lock_timeout = '500ms'",
    # A step that a crash undoes is done again, and whatever ends such work waits for the disk: all that was written
    # before it is there with it. So the disk is left to those who wait for an answer.
    "synchronous_commit = off",
    # By the index always: a guess from old statistics would read everybody's rows for each step.
    "enable_seqscan = off",
    "enable_bitmapscan = off",
)
"""Of a session that works in such steps."""


async def prepare(connection: Connection) -> None:
    """Set a session up for work in small steps."""
    for setting in SETTINGS:
        await connection.execute(f"set {setting}".encode())


async def leave_room(began: float) -> None:
    """Rest after a step that began at a moment of the monotonic clock: disk and processors are everybody's."""
    await asyncio.sleep(REST * (time.monotonic() - began))


@asynccontextmanager
async def alone(connection: Connection, name: str) -> AsyncIterator[bool]:
    """Hold the lock of a name, if it is free, until the block ends; yields whether it was."""
    number = names.lock_number(name)
    [[free]] = await (await connection.execute("select pg_try_advisory_lock(%s)", (number,))).fetchall()
    try:
        yield free
    finally:
        if free and not connection.closed:
            await connection.execute("select pg_advisory_unlock(%s)", (number,))
