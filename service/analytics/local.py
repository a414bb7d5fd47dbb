"""The adapter for projects without a connection: reads what this service has ingested (G-032).

Ingest keeps of a marker only its hash, and these queries ask for the properties that a plan names and for no others.
"""

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import perf_counter
from typing import Any, Final, Literal, NamedTuple

import psycopg
import structlog
from psycopg_pool import PoolTimeout

from service.analytics import metadata
from service.analytics.bounded import Bounded, Rows, Source
from service.eventstore.connect.connection import ReadingConnection, Row
from service.eventstore.connect.facts import DAY
from service.eventstore.store import EventStore
from service.fairness.turns import CommandNotDone, ReadNotDone
from service.sql import Query, Statement, load_query
from statemachines.deploys import Versions, compare, recurs
from statemachines.kernel.machine import Cause, ReadFailed
from statemachines.onboarding.proof import FAILURE_KEY, ErrorSighting, EventSighting, SeenSignals
from statemachines.runs.verdict import MOST_LOOKED, CountedIn

log = structlog.get_logger(__name__)

_EVENTS = load_query("analytics", "proof_events")
_ERRORS = load_query("analytics", "proof_errors")

_CONFINE = load_query("analytics", "confine")
_COUNT = load_query("analytics", "event_count")
_BY_HOUR = load_query("analytics/history", "traffic_by_hour")
_NEWEST: Mapping[Source, Query] = {
    "events": load_query("analytics", "newest_event"),
    "errors": load_query("analytics", "newest_error"),
    "deploys": load_query("analytics", "newest_deploy"),
}


SERVER_SENT_SECONDS = 14 * DAY
"""How long before a period a server has sent an event, so that its pages count for nothing in it."""
MOST_FUNNEL_ROWS = 1_000_000
"""Events of one period that a funnel is counted from: about a second and a half, of the five that a read has."""

_FUNNEL = load_query("analytics", "funnel")


class LocalAnalytics:
    """Reads the telemetry of one project from our own tables. It does not know the provider boundary."""

    source: Literal["local"] = "local"

    def __init__(self, store: EventStore, project_id: str, kept_days: int = 30) -> None:
        self._store = store
        self._project_id = project_id
        self._kept_seconds = kept_days * DAY

    async def proof_events(self, probe: metadata.EventProbe) -> Sequence[EventSighting] | ReadFailed:
        """Find analytics events with a proof marker."""
        rows = await self._read(
            _EVENTS,
            events=list(dict.fromkeys(probe.events)),
            names=list(probe.properties),
            marker=probe.marker_sha256,
            since=probe.since,
            until=probe.until,
            most=metadata.ROWS_PER_EVENT,
            most_stray=metadata.STRAY_ROWS,
        )
        if isinstance(rows, ReadFailed):
            return rows
        return [EventSighting(event, at, (marker,), properties) for event, at, marker, properties in rows]

    async def proof_errors(self, probe: metadata.ErrorProbe) -> Sequence[ErrorSighting] | ReadFailed:
        """Find errors with a proof marker and the failure."""
        rows = await self._read(
            _ERRORS,
            names=[*probe.context, FAILURE_KEY],
            key=FAILURE_KEY,
            failure=probe.failure_marker,
            marker=probe.marker_sha256,
            since=probe.since,
            until=probe.until,
            most=metadata.ROWS_PER_EVENT,
            most_stray=metadata.STRAY_ROWS,
        )
        if isinstance(rows, ReadFailed):
            return rows
        return [
            ErrorSighting(message, at, (marker,), tags, extra, user) for message, at, marker, tags, extra, user in rows
        ]

    async def count_events(self, probe: metadata.TrafficProbe) -> metadata.CountedEvents | ReadFailed:
        """Count events of an environment, and unnamed ones where usual.

        Those by the public DSN count when none came by the server's in the 14 days before (G-184).
        """
        rows = await self._read(
            _COUNT,
            event=probe.event,
            environment=probe.environment,
            since=probe.since,
            until=probe.until,
            before=probe.since - SERVER_SENT_SECONDS,
            looked=MOST_LOOKED,
        )
        if isinstance(rows, ReadFailed):
            return rows
        [(by_server, by_public, server_sends, looked, named)] = rows
        counted_in = CountedIn(probe.environment, looked, named)
        if server_sends or not by_public:
            return metadata.CountedEvents(by_server, counted_in)
        return metadata.CountedEvents(by_server + by_public, counted_in, "public")

    async def traffic_by_hour(
        self, probe: metadata.TrafficProbe, *, unnamed: bool, public: bool
    ) -> metadata.Hours | ReadFailed:
        """Count the same events by hour."""
        period = {"since": probe.since, "until": probe.until}
        told = {"event": probe.event, "environment": probe.environment, "unnamed": unnamed, "public": public}
        rows = await self._read(_BY_HOUR, **period, **told)
        return rows if isinstance(rows, ReadFailed) else dict(rows)

    async def count_funnel(self, probe: metadata.FunnelProbe) -> list[int] | ReadFailed:
        """Count the people at each step. Rows removed by retention are not guessed."""
        rows = await self._read(
            _FUNNEL,
            events=list(probe.events),
            since=probe.since,
            until=probe.until,
            kept=self._kept_seconds,
            most_rows=MOST_FUNNEL_ROWS,
        )
        if isinstance(rows, ReadFailed):
            return rows
        [(today, reached)] = rows
        if probe.since < today - self._kept_seconds:
            return ReadFailed("not_kept")
        return ReadFailed("too_much") if reached is None else [int(people) for people in reached]

    async def ask(self, query: Bounded) -> Rows | ReadFailed:
        """Carry out a bounded query, on a connection for such queries. Raises as Reader.connection but for ReadNotDone.

        What is kept is looked at when all is counted: the purge of a midnight that came meanwhile may have taken rows.
        """
        assert query.local is not None, "this is never asked of our own records"
        began = perf_counter()
        project = {"project_id": self._project_id}
        values = {
            "since": query.window.since,
            "until": query.window.until,
            "most": query.most + 1,
            "reach": query.reach,
        }
        try:
            async with self._store.queries.connection() as connection:
                [[last_at, linked]] = await connection.fetch(_NEWEST[query.source], project, prepare=None)
                # The best plan depends on the values: how frequent an event is, and how long the window.
                read = _fetch_confined if query.confined else _fetch
                rows = await read(connection, query.local, {**query.values, **values, **project, "linked": linked})
        except (psycopg.errors.QueryCanceled, ReadNotDone) as error:
            return unread(error)
        took = perf_counter() - began
        now = query.as_of if query.now is None else query.now
        kept_from = None if query.source == "deploys" else self._kept_from(now + math.ceil(took))
        return Rows(
            rows=rows,
            as_of=query.as_of,
            last_at=last_at,
            kept_from=kept_from,
            complete=kept_from is None or query.window.since >= kept_from,
            source=self.source,
            database_ms=took * 1000,
        )

    async def event_names(self, days: int, limit: int, *, trend: bool = False) -> metadata.NamesFound | ReadFailed:
        """Tell the names of the events of the last `days`, with a `trend` also each of the last ones."""
        try:
            found = await metadata.read_names(self._store, self._project_id, self._kept_seconds, days, limit)
            return await metadata.read_trends(self._store, self._project_id, found) if trend else found
        except (psycopg.Error, CommandNotDone) as error:
            return unread(error)

    async def property_keys(
        self, events: Sequence[str] | None, days: int, limit: int
    ) -> metadata.KeysFound | ReadFailed:
        """Tell the keys of the properties of these events, or of all, of the last `days`."""
        try:
            return await metadata.read_keys(self._store, self._project_id, self._kept_seconds, events, days, limit)
        except (psycopg.Error, CommandNotDone) as error:
            return unread(error)

    async def newest_rows(self, probe: metadata.SignalProbe) -> SeenSignals | ReadFailed:
        """Look at the newest rows of events, and for errors with the marker of a failure."""
        try:
            return await metadata.read_own(self._store, self._project_id, probe)
        except (psycopg.Error, CommandNotDone) as error:
            return unread(error)

    def _kept_from(self, now: int) -> int:
        return now - now % DAY - self._kept_seconds

    async def _read(self, query: Query, **parameters: Any) -> list[tuple[Any, ...]] | ReadFailed:
        try:
            async with self._store.connection() as connection:
                cursor = await connection.execute(query, {"project_id": self._project_id, **parameters})
                return await cursor.fetchall()
        except (psycopg.Error, CommandNotDone) as error:
            return unread(error)


async def _fetch(connection: ReadingConnection, query: Statement, values: Mapping[str, Any]) -> list[Row]:
    return await connection.fetch(query, values, prepare=False)


async def _fetch_confined(connection: ReadingConnection, query: Statement, values: Mapping[str, Any]) -> list[Row]:
    """Run a query of a caller's shape: read-only as all here, and in a transaction that sees one project's views."""
    async with connection.transaction():
        await connection.fetch(_CONFINE, {"project_id": values["project_id"]}, prepare=None)
        cursor = await connection.execute(query, values, prepare=False)
        return await cursor.fetchall()


def unread(error: Exception) -> ReadFailed:
    """Turn a database error into a failed read, and log it."""
    cause: Cause = (
        "timeout" if isinstance(error, psycopg.errors.QueryCanceled | PoolTimeout | ReadNotDone) else "unreachable"
    )
    log.warning("telemetry_read_failed", cause=cause, error=type(error).__name__)
    return ReadFailed(cause)


# How often an error came back after its repair was deployed, for verification and for the blueprint (G-111). An error
# counts by the case it was grouped into, the environment, and its release: none, the deployed one in any of its forms,
# or a later one (G-199). Nothing else that it says is looked at.

ERRORS_SQL = load_query("analytics", "recurrences")
LATER_SQL = load_query("analytics", "later_versions")

MOST_COUNTED: Final = 1_000
LOOKED: Final = 2_000
"""Errors that one read looks at. More than MOST_COUNTED: of a full read, either some do not count or enough do."""
MOST_READS: Final = 32
"""Reads of one count. A case with so many releases in so short a time has names without end."""
MOST_DEPLOYED: Final = 2_000
"""Versions that were deployed after the repair, of which so many are known."""

Ask = Callable[[Query, Mapping[str, Any]], Awaitable[Sequence[tuple[Any, ...]] | ReadFailed]]
"""Carries out a read of the project with these values."""


class RepairedCase(NamedTuple):
    """The case that was repaired, and the deploy of the repair: where errors count, and when it was recorded.

    A run without a case has no errors to count.
    """

    case_id: str | None
    deploy_id: str
    version: str
    environment: str
    deployed_at: int


async def count_recurrences(
    ask: Ask, repair: RepairedCase, since: int, until: int, *, by_version: bool = True
) -> int | ReadFailed:
    """Count errors received from `since` to before `until` (epoch seconds): of more than 1,000, so many.

    Without `by_version` a release is compared by equality, as it was for deploys bound before G-199. Releases that do
    not count are left out of the next read, until a read sees all the others. After MOST_READS the recurrences found
    so far are told, and `too_much` where there is none: nobody knows then whether the repair holds.
    """
    values = {"case_id": repair.case_id, "environment": repair.environment, "since": since, "until": until}
    others: list[str] = []
    later: Versions | None = None
    found = 0
    for _ in range(MOST_READS):
        rows = await ask(ERRORS_SQL, {**values, "others": others, "looked": LOOKED})
        if isinstance(rows, ReadFailed):
            return rows
        if later is None and by_version and any(_undecided(release, repair) for release, _ in rows):
            after = {"deployed_at": repair.deployed_at, "deploy_id": repair.deploy_id}
            deploys = await ask(LATER_SQL, {"environment": repair.environment, **after, "looked": MOST_DEPLOYED})
            if isinstance(deploys, ReadFailed):
                return deploys
            later = Versions(version for [version] in deploys)
        found = 0
        for release, count in rows:
            if (
                recurs(release, repair.version, later or Versions(()))
                if by_version
                else release in {None, repair.version}
            ):
                found += count
            else:
                others.append(release)
        if found >= MOST_COUNTED or sum(count for _, count in rows) < LOOKED:
            return min(found, MOST_COUNTED)
    return found or ReadFailed("too_much")


def _undecided(release: str | None, repair: RepairedCase) -> bool:
    """Tell whether the order of deploys has to say if an error counts."""
    return release is not None and compare(release, repair.version) is None
