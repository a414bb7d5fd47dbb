"""Day partitions of telemetry: made ahead of time, told by their days, and dropped whole (G-071).

Each is made and dropped under a lock that waits briefly, so that ingest goes on beside it.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any, NamedTuple

import psycopg

from service.eventstore.connect.clock import DAY
from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.schema.partitioned import TELEMETRY, partitions_of

Connection = psycopg.AsyncConnection[tuple[Any, ...]]

_TODAY = load_sql("ingest", "today")
_ENSURE = load_sql("ingest", "ensure_partition")
_DROP = load_sql("ingest", "drop_ended_partition")
DAYS_AHEAD = 7
DDL_WAIT = "500ms"
# Who waits to drop a partition has everybody wait behind who comes meanwhile: briefly, and rather once more.
DROP_WAIT = "100ms"
DROP_TRIES = 10
DROP_PAUSE = 0.5


class Partition(NamedTuple):
    """A partition and the epoch of its day's midnight; None for the default one, with whatever found no day's."""

    telemetry: str
    name: str
    day: int | None

    def ended_at(self, moment: int) -> bool:
        """Whether its day was over at a moment; the default one never is."""
        return self.day is not None and self.day + DAY <= moment


async def today_of(connection: Connection) -> int:
    """Epoch of the present day's UTC midnight, on the service's clock."""
    row = await (await connection.execute(_TODAY.encode())).fetchone()
    assert row is not None
    return int(row[0])


async def ensure_partitions(connection: Connection, days_ahead: int = DAYS_AHEAD) -> bool:
    """Give yesterday, today and the coming days their partitions; returns whether all have one now.

    `connection` is in autocommit mode. Each partition is one transaction that gives up after half a second.
    """
    today = await today_of(connection)
    complete = True
    for telemetry in TELEMETRY:
        for ahead in range(-1, days_ahead + 1):
            try:
                async with connection.transaction():
                    await connection.execute(f"set local lock_timeout = '{DDL_WAIT}'".encode())
                    values = {"telemetry": telemetry, "day": today + ahead * DAY}
                    cursor = await connection.execute(_ENSURE.encode(), values)
                    row = await cursor.fetchone()
            except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected, psycopg.errors.DuplicateTable):
                complete = False  # Another process makes it, or ingest uses it; the next run finds or makes it.
                continue
            complete = complete and row is not None and bool(row[0])
    return complete


async def partitions(connection: Connection, telemetry: str) -> list[Partition]:
    """All partitions of a telemetry table, oldest day first, the default one last."""
    names = await partitions_of(connection, telemetry)
    return [Partition(telemetry, name, _day_of(name.removeprefix(f"{telemetry}_"))) for name in names]


def _day_of(label: str) -> int | None:
    return None if label == "default" else int(datetime.strptime(f"{label}+0000", "%Y%m%d%z").timestamp())


async def drop_ended(connection: Connection, partition: Partition, moment: int) -> bool:
    """Drop a partition with all that it holds, if its day was over at a moment; False while somebody uses it."""
    for left in reversed(range(DROP_TRIES)):
        try:
            async with connection.transaction():
                await connection.execute(f"set local lock_timeout = '{DROP_WAIT}'".encode())
                values = {"telemetry": partition.telemetry, "partition": partition.name, "ended": moment}
                cursor = await connection.execute(_DROP.encode(), values)
                row = await cursor.fetchone()
            return row is not None and bool(row[0])
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            if left:
                await asyncio.sleep(DROP_PAUSE)
        except psycopg.errors.UndefinedTable:
            return False  # Another process was quicker.
    return False
