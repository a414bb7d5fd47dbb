"""The one way to ask a bounded question: in turn, within a time, of whoever answers for the project (G-032, G-151)."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Final, TypeVar

import msgspec
import structlog

from service.analytics.bounded import REACH, Bounded, Rows, Source, Table, Window
from service.analytics.connected import ConnectedAnalytics
from service.analytics.connecting.http import Paces, ProviderClient, Throttled
from service.analytics.connecting.oauth import ProviderOAuth
from service.analytics.connection import current_connection
from service.analytics.copied import CopiedAnalytics, CopyAway, choose, look
from service.analytics.history import History
from service.analytics.local import LocalAnalytics
from service.analytics.metadata import AnalyticsProvider
from service.analytics.returning import TokenKeeper
from service.auth.refusals import InvalidPayload, Refusal, ServiceUnavailable, refusal
from service.billing.plans import days_kept
from service.copy.reading import PLACES, CopyReader
from service.egress.guard import Guard
from service.eventstore.connect.facts import DAY, NOT_WRITTEN
from service.eventstore.read.reader import Caller, reading_for
from service.eventstore.store import QUERY_CONNECTIONS, EventStore
from service.fairness.bounds import SHARE, FairBounds
from service.fairness.offload import Aside
from service.fairness.semaphore import FairSemaphore
from service.fairness.turns import ReadNotDone
from service.settings import Settings
from service.sql import load_query
from statemachines.kernel.machine import ReadFailed

# Refusals of questions without an answer (G-006, G-151).

RETRY_AFTER: Final = "5"


class QueriesBusy(Refusal):
    """No turn came in time: others are being answered, or another question of the same account is (G-151)."""

    code = "rate_limited"

    def __init__(self) -> None:
        super().__init__(
            "Too many queries are running or waiting.",
            next_action="Wait for the others to end, and send one query at a time.",
            headers={"retry-after": RETRY_AFTER},
        )


class NoProvider(InvalidPayload):
    """Only a connected provider answers this, and the project has none."""

    def __init__(self) -> None:
        super().__init__(
            "A query text is answered by a connected provider, and this project has none.",
            invalid=[("query", "must be left out: ask with source and select, or connect a provider")],
        )


class ProviderRefusedQuery(InvalidPayload):
    """The connected provider does not accept the query of the caller."""

    def __init__(self, member: str) -> None:
        super().__init__(
            "The analytics provider does not accept this query.",
            invalid=[(member, "must be a query that the provider accepts: its names, functions and types are its own")],
        )


class BlueprintNotFound(Refusal):
    """There is no query blueprint of this id."""

    code = "blueprint_not_found"


def unanswered(failed: ReadFailed) -> Refusal:
    """The refusal of a request after a failed read: nothing is known, so the answer is not empty."""
    if failed.cause == "too_much":
        wish = "must be later, or the window shorter"
        return InvalidPayload(
            "The window holds more than one query reads.",
            invalid=[("from", f"{wish}: {failed.reason}" if isinstance(failed, CopyAway) else wish)],
        )
    if isinstance(failed, Throttled):
        return ServiceUnavailable(
            "The analytics provider takes no requests just now.",
            next_action="Retry after the seconds in Retry-After.",
            headers={"retry-after": str(failed.retry_after)},
        )
    return refusal("upstream_timeout" if failed.cause == "timeout" else "upstream_error")


# The analytics port: chooses the adapter that answers for a project (G-032). A project with a connection is read
# through it, also while the operator has taken the adapter's configuration away: its reads then fail. They never
# fall back to local records, which would be another answer to the same question.


class AnalyticsProviders:
    """The adapters of one process, over one client. `oauth` makes connections, `history` reads times before deploys."""

    def __init__(self, settings: Settings, store: EventStore, guard: Guard) -> None:
        self._store = store
        self.client = ProviderClient(settings, guard)
        self.oauth = ProviderOAuth(settings, self.client)
        self._terms = settings.terms
        copy = settings.clickhouse_reader_url or settings.clickhouse_url
        self._copy = None if copy is None else CopyReader(copy)
        self._tokens = TokenKeeper(store, self.oauth)
        self._paces = Paces()
        self.history = History(store)

    async def for_project(self, project_id: str) -> AnalyticsProvider:
        """Return the adapter of a project now."""
        return await self.connected(project_id) or await self.own(project_id)

    async def connected(self, project_id: str) -> ConnectedAnalytics | None:
        """Return the adapter of a project's connection. None without one."""
        connection = await current_connection(self._store, project_id)
        if connection is None:
            return None
        return ConnectedAnalytics(self._store, self.client, self._tokens, self._paces.of(connection.id), connection)

    async def own(self, project_id: str) -> LocalAnalytics:
        """Return what reads our own records of a project, which the plan of its account keeps so long."""
        return LocalAnalytics(self._store, project_id, await days_kept(self._store, self._terms, project_id))

    @property
    def copying(self) -> bool:
        """Whether there is a copy of our own records to read."""
        return self._copy is not None

    async def copied(self, project_id: str) -> CopiedAnalytics:
        """Return what reads the copy of our own records of a project."""
        assert self._copy is not None, "nothing is asked of a copy that is not there"
        return CopiedAnalytics(self._copy, project_id, await days_kept(self._store, self._terms, project_id))


# The one way to ask a bounded question: in turn, within a time, of whoever answers for the project (G-032, G-151). A
# query may take as much as all other reads together, so these have connections of their own: two a process, of which
# a tenant has one. A provider that is slow takes none of them; questions to providers have turns of their own.

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
        self._own = FairSemaphore(FairBounds(QUERY_CONNECTIONS, per_tenant=1), waiting=MOST_WAITING, rest=REST)
        places = FairBounds(SHARE.of(PROVIDER_PLACES, least=2), per_tenant=1)
        self._provided = FairSemaphore(places, waiting=MOST_WAITING)
        self._copied = FairSemaphore(FairBounds(SHARE.of(PLACES), per_tenant=1), waiting=MOST_WAITING, rest=REST)
        self._thread = Aside(waiting=MOST_WAITING, name="service-answers", rest=REST)

    @property
    def waiting(self) -> int:
        """Questions waiting for their turn."""
        return self._own.waiting + self._provided.waiting + self._copied.waiting

    async def now(self) -> int:
        """Return service_now() in epoch seconds. What was acknowledged before was received by then."""
        return await self._store.now()

    async def need_provider(self, project_id: str) -> None:
        """Raise NoProvider for a project that is not connected."""
        if (await self._providers.for_project(project_id)).source == "local":
            raise NoProvider

    async def watermark(
        self, project_id: str, sources: Collection[Source], events: Collection[str] | None, window: Window, now: int
    ) -> int | CopyAway | None:
        """Choose who answers a question about these sources: None for PostgreSQL or the provider, or the copy.

        `events` names those that it is about; None: all. The copy answers up to its watermark, which is returned.
        """
        if not self._providers.copying or not sources:
            return None
        if "events" in sources and await self._providers.connected(project_id) is not None:
            return None
        received_until = min(window.until + REACH, now + 1)
        touched = await look(self._store, project_id, sources, events, window, received_until)
        return choose(touched, window.since, now)

    async def ask(
        self, project_id: str, tenant: str, query: Bounded, deadline: QueryTime | None = None
    ) -> Rows | ReadFailed:
        """Ask one question in the name of a tenant; several of one request share a deadline.

        Raises QueriesBusy when no turn came, NoProvider when only a provider answers this and there is none, and
        psycopg.OperationalError or CommandNotDone when our own database is not there. A read that is not over in time
        has failed.
        """
        deadline = deadline or QueryTime()
        if query.watermark is not None and query.copied is not None:
            copied = await self._providers.copied(project_id)
            return await self._in_turn(self._copied, tenant, deadline, lambda: copied.ask(query, deadline.left))
        provider = await (self._providers.own if query.source != "events" else self._providers.for_project)(project_id)
        if provider.source == "local" and query.local is None:
            raise NoProvider
        turns = self._own if provider.source == "local" else self._provided
        return await self._in_turn(turns, tenant, deadline, lambda: provider.ask(query))

    async def _in_turn(
        self, turns: FairSemaphore, tenant: str, deadline: QueryTime, read: Callable[[], Awaitable[Rows | ReadFailed]]
    ) -> Rows | ReadFailed:
        """Read when it is the tenant's turn, before the deadline."""
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
                    found = await read()
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
