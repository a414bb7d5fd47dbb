"""Sweeps of a test's own, on a store of its own."""

from __future__ import annotations

from typing import Any

from service.analytics.history import History
from service.analytics.local import LocalAnalytics
from service.eventstore.store import EventStore
from service.runs.sweep import Sweep


class _Local:
    """The providers of a project that has none."""

    def __init__(self, store: EventStore) -> None:
        self.store = store
        self.history = History(store)

    async def for_project(self, project_id: str) -> Any:
        return LocalAnalytics(self.store, project_id)


def make_sweep(store: EventStore) -> Sweep:
    """One pass, not begun yet."""
    providers: Any = _Local(store)
    return Sweep(store, providers)
