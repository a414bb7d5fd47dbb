"""Which connections to analytics providers there are (G-022, G-032)."""

from __future__ import annotations

from projections.analytics.connection import CONNECTIONS, ConnectionRow
from service.eventstore.store import EventStore

_CONNECTED = "t.project_id = %s and t.status = 'connected'"


async def find_connection(store: EventStore, connection_id: str) -> ConnectionRow | None:
    """Find a connection by its id, in whatever project it is: whether the caller sees that one is the door's to ask."""
    rows = await store.find(CONNECTIONS, "t.id = %s", connection_id, limit=1)
    return rows[0] if rows else None


async def current_connection(store: EventStore, project_id: str) -> ConnectionRow | None:
    """Return the connection that a project reads through: the newest that was granted."""
    rows = await store.find(CONNECTIONS, _CONNECTED, project_id, order_by="t.connected_at desc, t.id desc", limit=1)
    return rows[0] if rows else None


def account_of(store: EventStore, project_id: str) -> str:
    """The account for the look-ups of a project's provider: the caller's, or in jobs the project by itself."""
    return store.reads.tenant or project_id
