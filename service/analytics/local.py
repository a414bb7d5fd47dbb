"""The adapter for projects without a connection: reads what this service has ingested (G-032).

Ingest keeps of a marker only its hash, and this file asks for the properties that a plan names and for no others.
Long values are read as `true`: whether a value is empty is all that matters, and a row may hold many kilobytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import psycopg
import structlog
from psycopg_pool import PoolTimeout

from service.analytics.probes import ROWS_PER_EVENT, STRAY_ROWS, ErrorProbe, EventProbe, FunnelProbe
from service.eventstore.connect.clock import DAY, TODAY
from service.eventstore.store import EventStore
from service.fairness.not_done import CommandNotDone, ReadNotDone
from statemachines.kernel.readings import Cause, ReadFailed
from statemachines.onboarding.proof import FAILURE_KEY, ErrorSighting, EventSighting

log = structlog.get_logger(__name__)

_ABRIDGED = (
    "coalesce((select jsonb_object_agg(m.key, case when octet_length(m.value::text) > 200 then 'true'::jsonb "
    "else m.value end) from jsonb_each({0}) m where m.key = any(%(names)s)), '{{}}')"
)
# Rows under other markers are found through the index over marked rows, which are few, however frequent an event is.
_EVENTS = f"""
select w.event, r.received_at, r.marker_hash, {_ABRIDGED.format("r.properties")}
from unnest(%(events)s::text[]) w(event)
cross join lateral (
    select received_at, marker_hash, properties from analytics_events
    where project_id = %(project_id)s and marker_hash = %(marker)s and event = w.event
      and received_at >= %(since)s and received_at < %(until)s
    order by received_at desc limit {ROWS_PER_EVENT}
) r
union all
select s.event, max(s.received_at), s.marker_hash, '{{}}'::jsonb from (
    select event, received_at, marker_hash from analytics_events
    where project_id = %(project_id)s and marker_hash is not null and marker_hash <> %(marker)s
      and event = any(%(events)s::text[]) and received_at >= %(since)s and received_at < %(until)s
    limit {STRAY_ROWS}
) s group by s.event, s.marker_hash
"""  # noqa: S608 - put together from constants
_SHOWS = "(tags ->> %(key)s = %(failure)s or extra ->> %(key)s = %(failure)s or strpos(message, %(failure)s) > 0)"
_ERRORS = f"""
select r.message, r.received_at, r.marker_hash, {_ABRIDGED.format("r.tags")}, {_ABRIDGED.format("r.extra")},
       {_ABRIDGED.format("r.user_data")}
from (
    (select message, received_at, marker_hash, tags, extra, user_data from log_events
     where project_id = %(project_id)s and marker_hash = %(marker)s and level in ('error', 'fatal')
       and received_at >= %(since)s and received_at < %(until)s and {_SHOWS}
     order by received_at desc limit {ROWS_PER_EVENT})
    union all
    (select message, received_at, marker_hash, tags, extra, null from log_events
     where project_id = %(project_id)s and marker_hash is not null and marker_hash <> %(marker)s
       and level in ('error', 'fatal') and received_at >= %(since)s and received_at < %(until)s and {_SHOWS}
     limit {STRAY_ROWS})
) r
"""  # noqa: S608 - put together from constants

_COUNT = """
select count(*) from analytics_events
where project_id = %(project_id)s and event = %(event)s and received_at > %(since)s and received_at <= %(until)s
"""


MOST_FUNNEL_ROWS = 1_000_000
"""Events of one period that a funnel is counted from: about a second and a half, of the five that a read has."""

# What is kept is known before anything is counted: the evening's purge may take what the morning's count has seen.
_FUNNEL = f"""
select {TODAY}, case when %(since)s >= {TODAY} - %(kept)s then ordered_funnel(project => %(project_id)s,
    steps => %(events)s::text[], since => %(since)s, until => %(until)s, most_rows => {MOST_FUNNEL_ROWS}) end
"""


class LocalAnalytics:
    """Reads the telemetry of one project from our own tables. It does not know the provider boundary."""

    source: Literal["local"] = "local"

    def __init__(self, store: EventStore, project_id: str, kept_days: int = 30) -> None:
        self._store = store
        self._project_id = project_id
        self._kept_seconds = kept_days * DAY

    async def proof_events(self, probe: EventProbe) -> Sequence[EventSighting] | ReadFailed:
        """Find analytics events that carry a proof marker."""
        rows = await self._read(
            _EVENTS,
            events=list(dict.fromkeys(probe.events)),
            names=list(probe.properties),
            marker=probe.marker_sha256,
            since=probe.since,
            until=probe.until,
        )
        if isinstance(rows, ReadFailed):
            return rows
        return [EventSighting(event, at, (marker,), properties) for event, at, marker, properties in rows]

    async def proof_errors(self, probe: ErrorProbe) -> Sequence[ErrorSighting] | ReadFailed:
        """Find errors that carry a proof marker and show the failure."""
        rows = await self._read(
            _ERRORS,
            names=[*probe.context, FAILURE_KEY],
            key=FAILURE_KEY,
            failure=probe.failure_marker,
            marker=probe.marker_sha256,
            since=probe.since,
            until=probe.until,
        )
        if isinstance(rows, ReadFailed):
            return rows
        return [
            ErrorSighting(message, at, (marker,), tags, extra, user) for message, at, marker, tags, extra, user in rows
        ]

    async def count_events(self, event: str, since: int, until: int) -> int | ReadFailed:
        """Count the events of a name received after `since` and not after `until`."""
        rows = await self._read(_COUNT, event=event, since=since, until=until)
        return rows if isinstance(rows, ReadFailed) else int(rows[0][0])

    async def count_funnel(self, probe: FunnelProbe) -> list[int] | ReadFailed:
        """Count the people who reached each step; what retention may have taken from the period is not guessed."""
        rows = await self._read(
            _FUNNEL, events=list(probe.events), since=probe.since, until=probe.until, kept=self._kept_seconds
        )
        if isinstance(rows, ReadFailed):
            return rows
        [(today, reached)] = rows
        if probe.since < today - self._kept_seconds:
            return ReadFailed("not_kept")
        return ReadFailed("too_much") if reached is None else [int(people) for people in reached]

    async def _read(self, query: str, **parameters: Any) -> list[tuple[Any, ...]] | ReadFailed:
        try:
            async with self._store.connection() as connection:
                cursor = await connection.execute(query.encode(), {"project_id": self._project_id, **parameters})
                return await cursor.fetchall()
        except (psycopg.Error, CommandNotDone) as error:
            return failed(error)


def failed(error: Exception) -> ReadFailed:
    """Turn a database error into a failed read, and log it."""
    cause: Cause = (
        "timeout" if isinstance(error, psycopg.errors.QueryCanceled | PoolTimeout | ReadNotDone) else "unreachable"
    )
    log.warning("telemetry_read_failed", cause=cause, error=type(error).__name__)
    return ReadFailed(cause)
