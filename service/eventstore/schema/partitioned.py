"""The tables of telemetry, which have a partition for each day."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import psycopg

TELEMETRY = ("log_events", "analytics_events")

_NAMES = (
    "select c.relname::text from pg_inherits i join pg_class c on c.oid = i.inhrelid "
    "where i.inhparent = %s::regclass order by c.relname"
)


async def partitions_of(connection: psycopg.AsyncConnection[tuple[Any, ...]], table: str) -> list[str]:
    """Names of all partitions of a table, oldest day first, the default one last."""
    cursor = await connection.execute(_NAMES, (table,))
    return [name for (name,) in await cursor.fetchall()]


def partition_of(table: str, day: int) -> str:
    """Name the partition that a day (the epoch of its midnight) has once it is made; see ensure_partition."""
    return f"{table}_{datetime.fromtimestamp(day, UTC):%Y%m%d}"
