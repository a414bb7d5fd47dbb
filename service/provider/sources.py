"""Where a project's provider data is read, in turn: at its connection, or its provisioned team (R-PRV-01, R-PRV-04)."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple, Protocol, TypeVar
from urllib.parse import quote

import msgspec

from projections.provider import TEAM_SIGHTINGS, TEAMS, TeamRow, TeamSightingRow
from service.analytics.connected import ConnectedAnalytics
from service.analytics.connecting.http import Content
from service.analytics.queries import AnalyticsProviders, QueriesBusy, unanswered
from service.auth.refusals import Refusal, refusal
from service.eventstore.store import EventStore
from service.fairness.bounds import SHARE, FairBounds
from service.fairness.semaphore import FairSemaphore
from service.fairness.turns import ReadNotDone
from service.provider.operator import EXCHANGE_SECONDS, OperatorProvider
from service.sql import load_query
from statemachines import provider as teams
from statemachines.kernel.machine import ReadFailed

# Refusals of reads of a provider that are no queries (G-095).


def unread(failed: ReadFailed) -> Refusal:
    """The refusal after a failed read. A page of a list has no window to make shorter."""
    return refusal("upstream_error") if failed.cause == "too_much" else unanswered(failed)


# Turns of the requests to providers: some at once in a process, few of them of one account (P25). Accounts with a
# slow provider share half of the places, one each, until an exchange of theirs is quick again. So silent hosts never
# take all places, however many accounts have one.

PLACES = 16
"""Requests of callers with an exchange under way."""
PER_ACCOUNT = 2
MOST_WAITING = 16
"""Requests of one account that wait for their turn."""
WAIT_SECONDS = 5.0
SLOW_SECONDS = 2.0
"""Least seconds of an exchange with a slow provider."""
SLOW_PLACES = 8
MOST_SLOW = 4096
"""Accounts remembered with a slow provider. The one with the oldest exchange is forgotten first."""


class Exchanges:
    """The turns of one process."""

    def __init__(self) -> None:
        places = FairBounds(SHARE.of(PLACES, least=2), per_tenant=SHARE.of(PER_ACCOUNT))
        self._turns = FairSemaphore(places, waiting=MOST_WAITING)
        slow = FairBounds(SHARE.of(SLOW_PLACES, least=2), per_tenant=1)
        self._slow_turns = FairSemaphore(slow, waiting=MOST_WAITING)
        self._slow: OrderedDict[str, None] = OrderedDict()

    @asynccontextmanager
    async def turn(self, account: str) -> AsyncIterator[None]:
        """Hold a place for a block. Raises QueriesBusy when none came in time."""
        loop = asyncio.get_running_loop()
        async with AsyncExitStack() as places:
            try:
                async with asyncio.timeout(WAIT_SECONDS):
                    if account in self._slow:
                        await places.enter_async_context(self._slow_turns.place(account))
                    await places.enter_async_context(self._turns.place(account))
            except (TimeoutError, ReadNotDone):
                raise QueriesBusy from None
            began = loop.time()
            try:
                yield
            finally:
                self._learn(account, loop.time() - began)

    def _learn(self, account: str, seconds: float) -> None:
        self._slow.pop(account, None)
        if seconds >= SLOW_SECONDS:
            self._slow[account] = None
            if len(self._slow) > MOST_SLOW:
                self._slow.popitem(last=False)


# A project's team as it is kept, and what the provider last said of it (R-PRV-01, G-094).

_SEEN = load_query("provider", "note_sighting")


class TeamStanding(NamedTuple):
    """A team, with what the provider last said of it."""

    row: TeamRow
    sighting: TeamSightingRow | None

    @property
    def is_ready(self) -> bool:
        """Whether the provider has confirmed the settings of now."""
        known = self.sighting
        return (
            known is not None
            and known.confirmed_revision is not None
            and (known.confirmed_revision == self.row.replay_revision)
        )


async def team_of(store: EventStore, project_id: str) -> TeamRow | None:
    """Return the team of a project, as far as it has come. None when nobody has asked for one."""
    return await store.get(TEAMS, *teams.stream(project_id).name)


async def standing_of(store: EventStore, project_id: str) -> TeamStanding | None:
    """Return the team of a project with what is known of it. None when nobody has asked for one."""
    name = teams.stream(project_id).name
    row = await store.get(TEAMS, *name)
    return None if row is None else TeamStanding(row, await store.get(TEAM_SIGHTINGS, *name))


async def note_sighting(store: EventStore, sighting: TeamSightingRow) -> None:
    """Keep what the provider said. Of a project that has been purged meanwhile nothing is kept."""
    values = {name: getattr(sighting, name) for name in sighting.__struct_fields__}
    async with store.facts.connection() as connection:
        await connection.execute(_SEEN, values)


# Where a project's provider data is read: at its connection, or its provisioned team (R-PRV-04). The connection
# comes first, as for all evidence (G-032). Recordings are read where the browser sends them: at the provisioned
# team, once its replay is on.

T = TypeVar("T", bound=msgspec.Struct)


class ProjectReader(Protocol):
    """Reads below one project of a provider."""

    async def get(self, path: str, shape: type[T]) -> T | ReadFailed:
        """Get something in the agreed form."""

    async def post(self, path: str, content: Content, shape: type[T]) -> T | ReadFailed:
        """Post a query, and read its answer in the agreed form."""


class TeamReader:
    """Reads a provisioned team with the operator's key."""

    def __init__(self, operator: OperatorProvider, team_id: int, account: str, seconds: float) -> None:
        self._operator = operator
        self._path = f"/api/projects/{team_id}/"
        self._account = account
        self._seconds = seconds

    async def get(self, path: str, shape: type[T]) -> T | ReadFailed:
        """Get something in the agreed form."""
        return await self._read("GET", path, None, shape)

    async def post(self, path: str, content: Content, shape: type[T]) -> T | ReadFailed:
        """Post a query, and read its answer in the agreed form."""
        return await self._read("POST", path, content, shape)

    async def _read(self, method: str, path: str, content: Content | None, shape: type[T]) -> T | ReadFailed:
        account, seconds = self._account, self._seconds
        return await self._operator.read(method, self._path + path, content, shape, account, seconds=seconds)


class Source(NamedTuple):
    """A project of a provider: its reader, its address for people, and the scopes it is read with (None: unknown)."""

    reader: ProjectReader
    web_url: str
    scopes: frozenset[str] | None

    def lacks(self, scope: str) -> bool:
        """Whether it cannot be read for want of a scope."""
        return self.scopes is not None and scope not in self.scopes

    def page_of(self, *parts: str) -> str:
        """The address of a page of the provider's web interface."""
        return "/".join([self.web_url, *(quote(part, safe="") for part in parts)])


class ProviderSources:
    """The sources of projects, for one process."""

    def __init__(self, store: EventStore, providers: AnalyticsProviders, operator: OperatorProvider) -> None:
        self._store = store
        self._providers = providers
        self._operator = operator

    async def of(self, project_id: str, account: str) -> Source | None:
        """Where a project is read. None when it is neither connected nor provisioned."""
        connected = await self._providers.connected(project_id)
        if connected is not None:
            return _of_connection(connected)
        row = await team_of(self._store, project_id)
        return None if row is None else self.of_team(row, account)

    async def of_recordings(self, project_id: str, account: str) -> Source | None:
        """Where the recordings of a project are. None when it is neither connected nor provisioned."""
        row = await team_of(self._store, project_id)
        if row is not None and row.replay_enabled:
            return self.of_team(row, account)
        return await self.of(project_id, account)

    def of_team(self, row: TeamRow, account: str, seconds: float = EXCHANGE_SECONDS) -> Source | None:
        """The provisioned team of a project, read within some seconds. None while there is none."""
        if row.team_id is None or row.host is None:
            return None
        reader = TeamReader(self._operator, row.team_id, account, seconds)
        return Source(reader, web_ui_url(row.host, row.team_id), None)


def web_ui_url(host: str, team_id: int | None) -> str:
    """The address of a project of a provider for people; of whichever is theirs, without an id."""
    return host if team_id is None else f"{host}/project/{team_id}"


def _of_connection(connected: ConnectedAnalytics) -> Source:
    row = connected.connection
    return Source(connected, web_ui_url(row.host, row.provider_project_id), frozenset(row.scopes))
