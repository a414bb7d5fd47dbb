"""The one way to ask a bounded question: in turn, within a time, of whoever answers for the project (G-032, G-151).

A query may take as much as all other reads together, so these have connections of their own: two a process, of which a
tenant has one. A provider that is slow takes none of them; questions to providers have turns of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import msgspec
import structlog

from service.analytics.bounded import Bounded, Rows, Table
from service.analytics.port import AnalyticsProviders
from service.analytics.probes import AnalyticsProvider
from service.analytics.refusals import NoProvider, QueriesBusy
from service.eventstore.connect.facts import DAY, NOT_WRITTEN
from service.eventstore.read.reader import Caller, reading_for
from service.eventstore.store import QUERY_CONNECTIONS, EventStore
from service.fairness.offload import Aside
from service.fairness.turns import ReadNotDone, Turns
from service.sql import load_query
from statemachines.kernel.readings import ReadFailed

T = TypeVar("T")

QUERY_SECONDS: Final = 10.0
"""For all that one request asks, waiting included."""
WAIT_SECONDS: Final = 5.0
"""For one turn."""
MOST_WAITING: Final = 8
"""Questions of one tenant that wait for their turn."""
PROVIDER_PLACES: Final = 8
"""Questions that providers are asked at once, of which a tenant has one."""
REST: Final = 1.0
"""How many times as long as a tenant's query took it has no other, while other tenants ask."""
LARGE_ROWS: Final = 500
"""Rows from which on an answer is laid out apart from the event loop."""


class QueryTime:
    """When the questions of one request have to be answered, by the clock of the event loop."""

    __slots__ = ("at",)

    def __init__(self, seconds: float = QUERY_SECONDS) -> None:
        self.at = asyncio.get_running_loop().time() + seconds

    @property
    def left(self) -> float:
        """Seconds left. None if it is not positive."""
        return self.at - asyncio.get_running_loop().time()


class BoundedQueries:
    """Asks bounded questions for one process."""

    def __init__(self, store: EventStore, providers: AnalyticsProviders) -> None:
        self._store = store
        self._providers = providers
        self._own = Turns(places=QUERY_CONNECTIONS, per_tenant=1, waiting=MOST_WAITING, rest=REST)
        self._provided = Turns(places=PROVIDER_PLACES, per_tenant=1, waiting=MOST_WAITING)
        self._thread = Aside(waiting=MOST_WAITING, name="service-answers", rest=REST)

    @property
    def waiting(self) -> int:
        """Questions waiting for their turn."""
        return self._own.waiting + self._provided.waiting

    async def now(self) -> int:
        """Return service_now() in epoch seconds. What was acknowledged before was received by then."""
        return await self._store.now()

    async def need_provider(self, project_id: str) -> None:
        """Raise NoProvider for a project that is not connected."""
        if (await self._providers.for_project(project_id)).source == "local":
            raise NoProvider

    async def ask(
        self, project_id: str, tenant: str, query: Bounded, deadline: QueryTime | None = None
    ) -> Rows | ReadFailed:
        """Ask one question in the name of a tenant; several of one request share a deadline.

        Raises QueriesBusy when no turn came, NoProvider when only a provider answers this and there is none, and
        psycopg.OperationalError or CommandNotDone when our own database is not there. A read that is not over in time
        has failed.
        """
        deadline = deadline or QueryTime()
        provider = await (self._providers.own if query.source != "events" else self._providers.for_project)(project_id)
        if provider.source == "local" and query.local is None:
            raise NoProvider
        turns = self._own if provider.source == "local" else self._provided
        began = asyncio.get_running_loop().time()
        wait = min(WAIT_SECONDS, deadline.left)
        try:
            async with asyncio.timeout(wait):
                await turns.enter(tenant)
        except TimeoutError:
            if wait < WAIT_SECONDS:  # An earlier question of the request has taken the time.
                return ReadFailed("timeout")
            raise QueriesBusy from None
        except ReadNotDone:
            raise QueriesBusy from None
        since = asyncio.get_running_loop().time()
        try:
            with reading_for(Caller(tenant, deadline.left)):
                async with asyncio.timeout_at(deadline.at):
                    found = await provider.ask(query)
        except TimeoutError:
            return ReadFailed("timeout")
        finally:
            turns.leave(tenant, asyncio.get_running_loop().time() - since)
        if isinstance(found, ReadFailed):
            return found
        return msgspec.structs.replace(found, waited_ms=(since - began) * 1000)

    async def describe(
        self, project_id: str, tenant: str, read: Callable[[AnalyticsProvider], Awaitable[T | ReadFailed]]
    ) -> T | ReadFailed:
        """Have what answers for a project tell of its names: a provider in turn, our own records among other reads.

        Raises QueriesBusy as `ask` does. A read that is not over in time has failed.
        """
        provider = await self._providers.for_project(project_id)
        if provider.source == "local":
            return await read(provider)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await self._provided.enter(tenant)
        except (TimeoutError, ReadNotDone):
            raise QueriesBusy from None
        since = loop.time()
        try:
            async with asyncio.timeout(QUERY_SECONDS - WAIT_SECONDS):
                return await read(provider)
        except TimeoutError:
            return ReadFailed("timeout")
        finally:
            self._provided.leave(tenant, loop.time() - since)

    async def apart(self, tenant: str, rows: int, work: Callable[[], T]) -> T:
        """Carry out a pure piece of work on so many rows: in a thread when they are many. Raises what it raises."""
        return await self._thread.run(tenant, work) if rows > LARGE_ROWS else work()


# The receipts of answers of connected providers, kept to be compared with the history of a plan (G-183).

log = structlog.get_logger(__name__)

KEPT_SECONDS: Final = 90 * DAY
"""How long a receipt is kept, unless a plan names it."""

_KEEP = load_query("analytics", "keep_receipt")


async def keep_receipt(store: EventStore, project_id: str, table: Table) -> None:
    """Keep the receipt of an answer, if a provider gave it. One that cannot be written now is not known later."""
    if table.provider_project_id is None:
        return
    evidence = table.evidence
    values = {
        "project_id": project_id,
        "sha256": evidence.query_receipt_sha256,
        "provider_project_id": table.provider_project_id,
        "since": evidence.since,
        "until": evidence.until,
        "kept_seconds": KEPT_SECONDS,
    }
    try:
        async with store.facts.connection() as connection:
            await connection.execute(_KEEP, values)
    except NOT_WRITTEN as error:
        log.warning("provider_receipt_not_kept", cause=type(error).__name__)
