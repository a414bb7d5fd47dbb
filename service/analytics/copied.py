"""Questions over many rows, answered from the copy of telemetry up to its watermark (G-200).

The copy answers and decides nothing: proofs, claims, verification, alerts, budgets and counters read PostgreSQL alone.
One question is answered from one source, since people and funnels of two do not add up.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from time import perf_counter
from typing import Any, Final, Literal, NamedTuple

import structlog

from service.analytics.bounded import Bounded, Rows, Source, Window
from service.copy.engine import CopyFailed
from service.copy.reading import CopyReader
from service.eventstore.connect.facts import DAY
from service.eventstore.store import EventStore
from service.sql import load_query
from statemachines.kernel.machine import ReadFailed

log = structlog.get_logger(__name__)

MOST_LOCAL_ROWS: Final = 1_000_000
"""Rows of a question that PostgreSQL answers where there is a copy. More go to the copy."""
MOST_BEHIND: Final = DAY
"""Seconds after which the copy is too old to answer."""
LATE: Final = "TIMEOUT_EXCEEDED"
TOO_MUCH: Final = frozenset({"MEMORY_LIMIT_EXCEEDED", "TOO_MANY_BYTES", "TOO_MANY_ROWS", "TOO_MANY_ROWS_OR_BYTES"})
AWAY: Final = "the copy of telemetry cannot be read now"
LATER: Final = "the copy of telemetry begins later"
TABLES: Final[Mapping[Source, str]] = {"events": "analytics_events", "errors": "log_events"}

_TOUCHED = load_query("analytics", "rows_touched")
_NEWEST: Final[Mapping[Source, str]] = {
    "events": load_query("analytics/copied", "newest_event").text,
    "errors": load_query("analytics/copied", "newest_error").text,
}


class CopyAway(ReadFailed, frozen=True, kw_only=True):
    """There are too many rows for PostgreSQL, and the copy does not answer, for a reason in our words."""

    reason: str


class Touched(NamedTuple):
    """What is known of a question before it is asked: how many rows it touches at most, and how far the copy is.

    `watermark` is None without a copy. It may have been begun later than with the oldest record: `copied_from` then.
    """

    rows: int
    watermark: int | None
    copied_from: int = 0


def choose(touched: Touched, since: int, now: int) -> int | CopyAway | None:
    """Choose who answers a question from a second on: None for PostgreSQL, or the copy's watermark.

    CopyAway: neither can.
    """
    if touched.watermark is None or touched.rows <= MOST_LOCAL_ROWS:
        return None
    if since < touched.copied_from:
        return CopyAway("too_much", reason=LATER)
    behind = now - touched.watermark
    if behind > MOST_BEHIND:
        hours = behind // 3600
        return CopyAway("too_much", reason=f"the copy of telemetry is {hours} hours behind")
    return touched.watermark


async def look(
    store: EventStore,
    project_id: str,
    sources: Collection[Source],
    events: Collection[str] | None,
    window: Window,
    received_until: int,
) -> Touched:
    """Look up what a question about these sources touches, and of events by names, in rows received until a second."""
    values = {
        "project_id": project_id,
        "events": None if events is None else list(events),
        "of_events": "events" in sources,
        "of_errors": "errors" in sources,
        "tables": [TABLES[source] for source in sources],
        "since": window.since,
        "until": received_until,
    }
    async with store.connection() as connection:
        cursor = await connection.execute(_TOUCHED, values)
        [(rows, watermark, copied_from)] = await cursor.fetchall()
    return Touched(rows, watermark, copied_from or 0)


class CopiedAnalytics:
    """Reads the telemetry of one project from the copy."""

    source: Literal["copy"] = "copy"

    def __init__(self, reader: CopyReader, project_id: str, kept_days: int) -> None:
        self._reader = reader
        self._project_id = project_id
        self._kept_seconds = kept_days * DAY

    async def ask(self, query: Bounded, seconds: float) -> Rows | ReadFailed:
        """Carry out a bounded query within seconds."""
        assert query.copied is not None
        assert query.watermark is not None
        began = perf_counter()
        values = values_of(query, self._project_id)
        try:
            newest = await self._reader.ask(_NEWEST[query.source], named_in(_NEWEST[query.source], values), seconds)
            left = seconds - (perf_counter() - began)
            found = await self._reader.ask(query.copied, named_in(query.copied, values), left)
        except CopyFailed as failed:
            return unread(failed)
        now = query.as_of if query.now is None else query.now
        kept_from = now - now % DAY - self._kept_seconds
        return Rows(
            rows=[tuple(row) for row in found.rows],
            as_of=query.as_of,
            last_at=newest.rows[0][0] or None,
            kept_from=kept_from,
            complete=query.window.since >= kept_from,
            source=self.source,
            database_ms=(perf_counter() - began) * 1000,
        )


def values_of(query: Bounded, project_id: str) -> dict[str, Any]:
    """The values of the places of a query. The copy knows no null among them: an absent text is the empty one."""
    assert query.watermark is not None
    until = min(query.window.until, query.watermark)
    return {
        **{name: "" if value is None else value for name, value in query.values.items()},
        "project_id": project_id,
        "since": min(query.window.since, query.watermark),
        "until": query.window.until,
        "received_until": min(until + query.reach, query.watermark),
        "watermark": query.watermark,
        "most": query.most + 1,
    }


def named_in(text: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that a statement has places for."""
    return {name: value for name, value in values.items() if f"{{{name}:" in text}


def unread(failed: CopyFailed) -> ReadFailed:
    """Turn a failure of the copy into a failed read, and log it."""
    name = str(failed)
    log.warning("copy_read_failed", cause=name)
    if name == LATE:
        return ReadFailed("timeout")
    return ReadFailed("too_much") if name in TOO_MUCH else CopyAway("too_much", reason=AWAY)
