"""The analytics port: chooses the adapter that answers for a project (G-032).

A project with a connection is read through it, also while the operator has taken the adapter's configuration away:
its reads then fail. They never fall back to local records, which would be another answer to the same question.
"""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary

from service.analytics.connected import ConnectedAnalytics
from service.analytics.http import ProviderClient
from service.analytics.local import LocalAnalytics
from service.analytics.oauth import ProviderOAuth
from service.analytics.probes import AnalyticsProvider
from service.analytics.reads import current_connection
from service.billing.plans import days_kept
from service.egress.guard import Guard
from service.eventstore.store import EventStore
from service.settings import Settings


class AnalyticsProviders:
    """The adapters of one process. `oauth` makes connections."""

    def __init__(self, settings: Settings, store: EventStore, guard: Guard) -> None:
        self._store = store
        self._client = ProviderClient(settings, guard)
        self.oauth = ProviderOAuth(settings, self._client)
        self._plans = settings.plans
        self._refreshing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def for_project(self, project_id: str) -> AnalyticsProvider:
        """Return the adapter of a project now."""
        connection = await current_connection(self._store, project_id)
        if connection is None:
            return await self.own(project_id)
        lock = self._refreshing.setdefault(connection.id, asyncio.Lock())
        return ConnectedAnalytics(self._store, self._client, self.oauth, connection, lock)

    async def own(self, project_id: str) -> LocalAnalytics:
        """Return what reads our own records of a project, which the plan of its account keeps so long."""
        return LocalAnalytics(self._store, project_id, await days_kept(self._store, self._plans, project_id))
