"""The projects of a person, and the DSN of one where a copy of it can be opened (R-PROJ-02, R-PROJ-03)."""

from __future__ import annotations

from typing import NamedTuple

from service.auth.sealing import DSN_COPY, unseal
from service.eventstore.read.pages import PageEnd
from service.eventstore.store import EventStore
from statemachines.projects.project import ProjectNotFound

_PROJECTS_OF = (
    "select p.id, p.name, m.role, p.dsn_prefix, c.ciphertext is not null, p.created_at from memberships m "
    "join projects p on p.project_id = m.project_id and p.id = m.project_id "
    "left join dsn_copies c on c.project_id = p.project_id and c.id = p.id and c.dsn_hash = p.dsn_hash "
    "where m.user_id = %s and (p.created_at, p.id) < (%s, %s) order by p.created_at desc, p.id desc limit %s"
)
_DSN_OF = (
    "select p.dsn_prefix, c.ciphertext from projects p "
    "left join dsn_copies c on c.project_id = p.project_id and c.id = p.id and c.dsn_hash = p.dsn_hash "
    "where p.project_id = %s and p.id = %s"
)


class ListedProject(NamedTuple):
    """A project as one of its members has it; `copied`: a sealed copy of its DSN is kept."""

    id: str
    name: str
    role: str
    dsn_prefix: str
    copied: bool
    created_at: int


class KnownDsn(NamedTuple):
    """What is known of a DSN: its first characters, and its key where a copy can be opened."""

    prefix: str
    key: str | None


async def projects_of(store: EventStore, user_id: str, after: PageEnd, limit: int) -> list[ListedProject]:
    """List at most `limit` projects of a person that come after a place, newest first."""
    rows = await store.fetch(_PROJECTS_OF, user_id, after.at, after.id, limit)
    return [ListedProject(*row) for row in rows]


async def dsn_of(store: EventStore, project_id: str, encryption_key: bytes | None) -> KnownDsn:
    """Read the DSN of a project; never rotates it. Raises ProjectNotFound."""
    rows = await store.fetch(_DSN_OF, project_id, project_id)
    if not rows:
        raise ProjectNotFound("There is no such project.")
    [(prefix, sealed)] = rows
    return KnownDsn(prefix, unseal(encryption_key, DSN_COPY, project_id, sealed))
