"""The end of telemetry that has been kept long enough (G-071). Cases, deploys and events stay for ever.

A day that nobody's plan keeps any more goes as a whole: its partition is dropped, and none of its rows is deleted
before. What shorter plans keep no longer within days that longer ones still keep is deleted in small steps, each a
transaction of its own; accounts take turns, and after each step others have room. Nothing is remembered between steps
but in the tables: a run that was stopped in the middle is gone on with by the next.

Of a case's last error a sample stays.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import psycopg
import structlog
from psycopg import sql

from service.billing.plans import Retention
from service.eventstore.connect.clock import DAY
from service.eventstore.declare.steps import alone, leave_room, prepare
from service.eventstore.schema.partitioned import TELEMETRY
from service.ingest.kept.partitions import Partition, drop_ended, partitions, today_of

log = structlog.get_logger()

Connection = psycopg.AsyncConnection[tuple[Any, ...]]

STEP = 2000  # rows a transaction deletes
CASES = 500  # of which a transaction keeps samples
PROJECTS = 1000  # whose rows a statement finds
USAGE_DAYS = 400  # usage is shown for a year
FLUSHER_SECONDS = DAY

_SAMPLE = """jsonb_build_object('id', n.id, 'message', n.message, 'level', n.level, 'environment', n.environment,
    'release', n.release, 'user_id', n.user_id, 'tags', n.tags, 'received_at', n.received_at,
    'adjusted', coalesce(n.adjusted, '[]'))"""
# The cases of a partition are found one by one in its index: it has many rows of each. A case has a sample from its
# first error on that went, and in the end the sample is the last one: those between need not be written.
_KEEP_SAMPLES = f"""
with recursive step(project_id, case_id, n) as (
    (select e.project_id, e.case_id, 1 from {{0}} e
        where e.case_id is not null and (e.project_id, e.case_id) > (%s, %s) order by e.project_id, e.case_id limit 1)
    union all
    select x.project_id, x.case_id, s.n + 1 from step s cross join lateral (
        select e.project_id, e.case_id from {{0}} e
        where e.case_id is not null and (e.project_id, e.case_id) > (s.project_id, s.case_id)
        order by e.project_id, e.case_id limit 1) x
    where s.n < %s
), due as (
    select c.project_id, c.id from step s join case_stats c on c.project_id = s.project_id and c.id = s.case_id
    where c.sample is null or c.last_seen_at < %s
    order by c.project_id, c.id for no key update of c
), kept as (
    update case_stats c set sample = {_SAMPLE}
    from due d cross join lateral (
        select * from {{0}} e where e.project_id = d.project_id and e.case_id = d.id
        order by e.received_at desc, e.id desc limit 1) n
    where c.project_id = d.project_id and c.id = d.id
)
select s.project_id, s.case_id, s.n from step s order by s.n desc limit 1
"""  # noqa: S608 - constants
_HOLDERS = """
with recursive step(project_id, n) as (
    (select e.project_id, 1 from {0} e where e.project_id > %s order by e.project_id limit 1)
    union all
    select x.project_id, s.n + 1 from step s cross join lateral (
        select e.project_id from {0} e where e.project_id > s.project_id order by e.project_id limit 1) x
    where s.n < %s
)
select s.project_id from step s order by s.n
"""
_DOOMED = """
delete from {0} e where e.ctid = any(array(
    select d.ctid from {0} d where d.project_id = %s and d.received_at >= %s and d.received_at < %s
    order by d.received_at, d.id limit %s))
"""
# Rows are deleted oldest first, so the last sample that is taken is of the last error.
_DELETE = {
    "log_events": f"""
with gone as ({_DOOMED} returning e.project_id, e.received_at, e.id, e.case_id, e.message, e.level, e.environment,
    e.release, e.user_id, e.tags, e.adjusted
), newest as (
    select distinct on (g.case_id) g.* from gone g where g.case_id is not null
    order by g.case_id, g.received_at desc, g.id desc
), kept as (
    update case_stats c set sample = {_SAMPLE}
    from newest n where c.project_id = n.project_id and c.id = n.case_id
    and (c.sample is null or n.received_at >= c.last_seen_at)
)
select count(*), coalesce(max(g.received_at), 0) from gone g
""",  # noqa: S608 - constants
    "analytics_events": f"""
with gone as ({_DOOMED} returning e.received_at)
select count(*), coalesce(max(g.received_at), 0) from gone g
""",  # noqa: S608 - constants
}
_PURGE_USAGE = ("delete from usage_days where day < %s", "delete from usage_deploys where day < %s")
_PURGE_FLUSHERS = "delete from ingest_flushers where seen_at < %s"


@dataclass
class _Piece:
    """What a project keeps no longer of a partition: rows received before `until`, of which those from `after` on."""

    partition: Partition
    project_id: str
    until: int
    after: int = 0


async def purge(connection: Connection, kept: Retention) -> int:
    """Carry out retention for every project; returns how many telemetry rows were deleted one by one.

    `connection` is in autocommit mode, and set up for steps. Repeating it does no harm, and stopping it in the middle
    none either; while another process does it, it does nothing.
    """
    await prepare(connection)
    async with alone(connection, "retention") as free:
        if not free:
            return 0
        today = await today_of(connection)
        dropped, lines = 0, dict[str, deque[_Piece]]()
        for telemetry in TELEMETRY:
            there = await partitions(connection, telemetry)
            over = [one for one in there if one.ended_at(today - kept.longest * DAY)]
            for one in over:
                dropped += await _drop(connection, one, today - kept.longest * DAY)
            # One that could not be dropped, because somebody used it all the time, is for the next run.
            await _find(connection, (one for one in there if one not in over), kept, today, lines)
        total = await _delete(connection, lines)
        for statement in _PURGE_USAGE:
            await connection.execute(statement.encode(), (today - USAGE_DAYS * DAY,))
        await connection.execute(_PURGE_FLUSHERS.encode(), (today - FLUSHER_SECONDS,))
        if total or dropped:
            log.info("telemetry_purged", rows=total, partitions=dropped)
        return total


async def _drop(connection: Connection, partition: Partition, moment: int) -> bool:
    """Keep samples of the cases of a partition, then drop it; returns whether it went."""
    if partition.telemetry == "log_events" and partition.day is not None:
        query = _of(_KEEP_SAMPLES, partition)
        last: tuple[Any, ...] | None = ("", "", CASES)
        while last is not None and last[2] == CASES:
            began = time.monotonic()
            cursor = await connection.execute(query, (*last[:2], CASES, partition.day + DAY))
            last = await cursor.fetchone()
            await leave_room(began)
    return await drop_ended(connection, partition, moment)


async def _find(
    connection: Connection,
    there: Iterable[Partition],
    kept: Retention,
    today: int,
    lines: dict[str, deque[_Piece]],
) -> None:
    """Add what each account's projects keep no longer to its line, oldest day first."""
    shortest = min(kept.days.values(), default=kept.longest)
    for partition in there:
        if partition.day is not None and not partition.ended_at(today - shortest * DAY):
            continue
        last, found = "", PROJECTS
        while found == PROJECTS:
            began = time.monotonic()
            cursor = await connection.execute(_of(_HOLDERS, partition), (last, PROJECTS))
            holders = [project_id for (project_id,) in await cursor.fetchall()]
            for project_id in holders:
                days = kept.days.get(project_id)
                if days is None:  # It is being deleted, by others.
                    continue
                until = today - days * DAY
                if partition.day is None or partition.ended_at(until):
                    lines.setdefault(kept.payers[project_id], deque()).append(_Piece(partition, project_id, until))
            last, found = holders[-1] if holders else "", len(holders)
            await leave_room(began)


async def _delete(connection: Connection, lines: dict[str, deque[_Piece]]) -> int:
    """Delete what is in the lines, a step of each account in turn; returns how many rows went."""
    total = 0
    while lines:
        for account, line in list(lines.items()):
            piece, began = line[0], time.monotonic()
            query = _of(_DELETE[piece.partition.telemetry], piece.partition)
            cursor = await connection.execute(query, (piece.project_id, piece.after, piece.until, STEP))
            [[gone, latest]] = await cursor.fetchall()
            total += gone
            piece.after = latest
            if gone < STEP:
                line.popleft()
            if not line:
                del lines[account]
            await leave_room(began)
    return total


def _of(query: str, partition: Partition) -> sql.Composed:
    return sql.SQL(query).format(sql.Identifier(partition.name))
