"""Day partitions ahead of time, and the end of what has been kept long enough (G-071).

Both run as background jobs, in small steps with short locks, so that ingest goes on beside them. Cases, deploys and
events stay for ever; of a case's last error a sample stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import psycopg
import structlog

from service.eventstore.clock import DAY, TODAY

log = structlog.get_logger()

Connection = psycopg.AsyncConnection[tuple[Any, ...]]

DAYS_AHEAD = 7
STEP = 2000  # rows a transaction deletes
USAGE_DAYS = 400  # usage is shown for a year
FLUSHER_SECONDS = DAY
DDL_WAIT = "500ms"

_PARTITIONS = (
    "select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid "
    "where i.inhparent = %s::regclass and c.relname <> %s || '_default' order by c.relname"
)
# The rows are deleted oldest first; the newest of them stands in for the case until a newer one is deleted.
_PURGE_LOGS = """
with doomed as (
    select e.project_id, e.received_at, e.id from log_events e
    where e.project_id = %s and e.received_at < %s order by e.received_at, e.id limit %s
), gone as (
    delete from log_events e using doomed d
    where e.project_id = d.project_id and e.received_at = d.received_at and e.id = d.id
    returning e.project_id, e.received_at, e.id, e.case_id, e.message, e.level, e.environment, e.release, e.user_id,
        e.tags
), newest as (
    select distinct on (g.case_id) g.* from gone g where g.case_id is not null
    order by g.case_id, g.received_at desc, g.id desc
), kept as (
    update case_stats s set sample = jsonb_build_object('id', n.id, 'message', n.message, 'level', n.level,
        'environment', n.environment, 'release', n.release, 'user_id', n.user_id, 'tags', n.tags,
        'received_at', n.received_at)
    from newest n where s.project_id = n.project_id and s.id = n.case_id
)
select count(*) from gone
"""
_PURGE_ANALYTICS = """
with doomed as (
    select e.project_id, e.received_at, e.id from analytics_events e
    where e.project_id = %s and e.received_at < %s order by e.received_at, e.id limit %s
), gone as (
    delete from analytics_events e using doomed d
    where e.project_id = d.project_id and e.received_at = d.received_at and e.id = d.id returning 1
)
select count(*) from gone
"""
_PURGE_USAGE = ("delete from usage_days where day < %s", "delete from usage_deploys where day < %s")
_PURGE_FLUSHERS = "delete from ingest_flushers where seen_at < %s"


async def _today(connection: Connection) -> int:
    """Epoch of the present day's UTC midnight, on the service's clock."""
    row = await (await connection.execute(f"select {TODAY}".encode())).fetchone()
    assert row is not None
    return int(row[0])


async def ensure_partitions(connection: Connection, days_ahead: int = DAYS_AHEAD) -> bool:
    """Give yesterday, today and the coming days their partitions; returns whether all have one now.

    `connection` is in autocommit mode. Each partition is one transaction that gives up after half a second.
    """
    today = await _today(connection)
    complete = True
    for telemetry in ("log_events", "analytics_events"):
        for ahead in range(-1, days_ahead + 1):
            try:
                async with connection.transaction():
                    await connection.execute(f"set local lock_timeout = '{DDL_WAIT}'".encode())
                    cursor = await connection.execute(
                        "select ensure_partition(telemetry => %s, day => %s)", (telemetry, today + ahead * DAY)
                    )
                    row = await cursor.fetchone()
            except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected, psycopg.errors.DuplicateTable):
                complete = False  # Another process makes it, or ingest uses it; the next run finds or makes it.
                continue
            complete = complete and row is not None and bool(row[0])
    return complete


async def purge_project(connection: Connection, project_id: str, days: int) -> int:
    """Delete a project's telemetry that is older than `days` days, in steps; returns how many rows went."""
    limit = await _today(connection) - days * DAY
    total = 0
    for statement in (_PURGE_LOGS, _PURGE_ANALYTICS):
        while True:
            cursor = await connection.execute(statement.encode(), (project_id, limit, STEP))
            row = await cursor.fetchone()
            gone = row[0] if row else 0
            total += gone
            if gone < STEP:
                break
    return total


async def drop_empty_partitions(connection: Connection, days: int) -> int:
    """Drop partitions that ended more than `days` days ago and hold nothing; returns how many went."""
    today = await _today(connection)
    dropped = 0
    for telemetry in ("log_events", "analytics_events"):
        cursor = await connection.execute(_PARTITIONS, (telemetry, telemetry))
        for (name,) in await cursor.fetchall():
            if name < f"{telemetry}_{_label(today - (days + 1) * DAY)}":
                dropped += await _drop_if_empty(connection, telemetry, name)
    return dropped


def _label(day: int) -> str:
    return datetime.fromtimestamp(day, UTC).strftime("%Y%m%d")


async def _drop_if_empty(connection: Connection, telemetry: str, name: str) -> bool:
    """Drop a partition unless it holds rows, or somebody uses it just now."""
    try:
        async with connection.transaction():
            await connection.execute(f"set local lock_timeout = '{DDL_WAIT}'".encode())
            cursor = await connection.execute(
                "select drop_empty_partition(telemetry => %s, partition_name => %s)", (telemetry, name)
            )
            row = await cursor.fetchone()
    except (psycopg.errors.LockNotAvailable, psycopg.errors.UndefinedTable):
        return False
    return row is not None and bool(row[0])


async def purge(connection: Connection, days_by_project: Mapping[str, int], longest: int) -> int:
    """Carry out retention for every project; `longest` is the longest retention of any of them, in days.

    Returns how many telemetry rows went. Repeating it does no harm, and stopping it in the middle none either.
    """
    total = 0
    for project_id, days in days_by_project.items():
        total += await purge_project(connection, project_id, days)
    dropped = await drop_empty_partitions(connection, longest)
    today = await _today(connection)
    for statement in _PURGE_USAGE:
        await connection.execute(statement.encode(), (today - USAGE_DAYS * DAY,))
    await connection.execute(_PURGE_FLUSHERS.encode(), (today - FLUSHER_SECONDS,))
    if total or dropped:
        log.info("telemetry_purged", rows=total, partitions=dropped)
    return total
