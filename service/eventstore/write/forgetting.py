"""Deleting rows whose time is over, without holding anybody up."""

from __future__ import annotations

from collections.abc import Iterable

import psycopg
import structlog

log = structlog.get_logger()

BATCH = 5_000


async def forget(conninfo: str, over: Iterable[tuple[str, str]], event: str) -> None:
    """Delete rows of tables, given as (table, condition), in batches of a transaction each: no command waits for long.

    `event` names what is logged when there were any. Raises psycopg.Error.
    """
    async with await psycopg.AsyncConnection.connect(
        conninfo, autocommit=True, application_name="service-forget"
    ) as connection:
        for table, condition in over:
            query = (
                f"delete from {table} where ctid = any(array("  # noqa: S608 - constants only
                f"select ctid from {table} where {condition} limit {BATCH} for update skip locked))"
            )
            total = 0
            while count := (await connection.execute(query.encode())).rowcount:
                total += count
            if total:
                log.info(event, table=table, count=total)
