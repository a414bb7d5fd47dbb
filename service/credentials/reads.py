"""Queries about project credentials."""

from __future__ import annotations

import msgspec

from projections.credentials.credential import CredentialRow
from service.credentials.show import CredentialStanding
from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.read.pages import PageEnd
from service.eventstore.store import EventStore

_NEWEST = load_sql("credentials", "newest")


async def credentials_of(store: EventStore, project_id: str, after: PageEnd, limit: int) -> list[CredentialStanding]:
    """List at most `limit` credentials of a project that come after a place, as they stand now, newest first."""
    now = await store.now()
    rows = await store.fetch(_NEWEST, project_id=project_id, at=after.at, id=after.id, limit=limit)
    return [CredentialStanding(msgspec.json.decode(text, type=CredentialRow), used, now) for text, used in rows]
