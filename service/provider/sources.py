"""Where a project's provider data is read: at its connection, or its provisioned team (R-PRV-04).

The connection comes first, as for all evidence (G-032). Recordings are read where the browser sends them: at the
provisioned team, once its replay is on.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeVar
from urllib.parse import quote

import msgspec

from projections.provider import TeamRow
from service.analytics.connected import ConnectedAnalytics
from service.analytics.connecting.http import Content
from service.analytics.port import AnalyticsProviders
from service.eventstore.store import EventStore
from service.provider.operator import EXCHANGE_SECONDS, OperatorProvider
from service.provider.reads import team_of
from statemachines.kernel.readings import ReadFailed

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
