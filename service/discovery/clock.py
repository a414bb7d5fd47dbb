"""Moving the clock of the service forward, for tests (G-120).

The clock is no part of any history and its row no read model: this write has a connection of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import psycopg

from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.log.deferring import defer
from service.eventstore.log.reactor import Job

_ADVANCE = load_sql("discovery", "advance")


async def advance(conninfo: str, seconds: int, waking: Callable[[int], Sequence[Job]]) -> tuple[int, int]:
    """Move the clock ahead by seconds, and defer the jobs that `waking` names for the new time.

    Returns the service's time and how far it is ahead by now, in epoch seconds and seconds.
    """
    async with await psycopg.AsyncConnection.connect(conninfo, application_name="service-test-clock") as connection:
        cursor = await connection.execute(_ADVANCE.encode(), {"seconds": seconds})
        [[server_time, ahead]] = await cursor.fetchall()
        for job in waking(server_time):
            await defer(connection, job)
    return int(server_time), int(ahead)
