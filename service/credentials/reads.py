"""Queries about project credentials."""

from __future__ import annotations

import msgspec

from projections.credentials.credential import CredentialRow
from service.credentials.show import CredentialStanding
from service.eventstore.read.pages import PageEnd
from service.eventstore.store import EventStore

_CREDENTIALS_OF = (
    "select row_to_json(t)::text, u.last_used_at from credentials t left join credential_uses u using (project_id, id) "
    "where t.project_id = %s and (t.created_at, t.id) < (%s, %s) order by t.created_at desc, t.id desc limit %s"
)


async def credentials_of(store: EventStore, project_id: str, after: PageEnd, limit: int) -> list[CredentialStanding]:
    """List at most `limit` credentials of a project that come after a place, as they stand now, newest first."""
    now = await store.now()
    rows = await store.fetch(_CREDENTIALS_OF, project_id, after.at, after.id, limit)
    return [CredentialStanding(msgspec.json.decode(text, type=CredentialRow), used, now) for text, used in rows]
