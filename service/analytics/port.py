"""The analytics port: chooses the adapter that answers for a project (G-032).

A project with a connection is read through it, also while the operator has taken the adapter's configuration away:
its reads then fail. They never fall back to local records, which would be another answer to the same question.
"""

from __future__ import annotations

from service.analytics.connected import ConnectedAnalytics
from service.analytics.connecting.http import ProviderClient
from service.analytics.connecting.oauth import ProviderOAuth
from service.analytics.connecting.pace import Paces
from service.analytics.connection import current_connection
from service.analytics.local import LocalAnalytics
from service.analytics.probes import AnalyticsProvider
from service.analytics.returning import TokenKeeper
from service.billing.plans import days_kept
from service.egress.guard import Guard
from service.eventstore.store import EventStore
from service.settings import Settings


class AnalyticsProviders:
    """The adapters of one process, over one client. `oauth` makes connections."""

    def __init__(self, settings: Settings, store: EventStore, guard: Guard) -> None:
        self._store = store
        self.client = ProviderClient(settings, guard)
        self.oauth = ProviderOAuth(settings, self.client)
        self._terms = settings.terms
        self._tokens = TokenKeeper(store, self.oauth)
        self._paces = Paces()

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
