"""The projects of a person, and the DSN of one where a copy of it can be opened (R-PROJ-02, R-PROJ-03)."""

from __future__ import annotations

from typing import NamedTuple

from service.auth.sealing import DSN_COPY, PUBLIC_DSN_COPY, unseal
from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.read.pages import PageEnd
from service.eventstore.store import EventStore
from statemachines.projects.project import ProjectNotFound

_PROJECTS_OF = load_sql("projects", "projects_of")
_DSN_OF = load_sql("projects", "dsn_of")


class ListedProject(NamedTuple):
    """A project for one of its members. `copied`: a sealed copy of its DSN is kept."""

    id: str
    name: str
    role: str
    dsn_prefix: str
    copied: bool
    created_at: int


class KnownDsn(NamedTuple):
    """The DSN of a project: its first characters, and its key where a copy can be opened. The same of the public one.

    `public_prefix` is None in a project without a public DSN.
    """

    prefix: str
    key: str | None
    public_prefix: str | None
    public_key: str | None


async def projects_of(store: EventStore, user_id: str, after: PageEnd, limit: int) -> list[ListedProject]:
    """List at most `limit` projects of a person that come after a place, newest first."""
    rows = await store.fetch(_PROJECTS_OF, user_id=user_id, at=after.at, id=after.id, limit=limit)
    return [ListedProject(*row) for row in rows]


async def dsn_of(store: EventStore, project_id: str, encryption_key: bytes | None) -> KnownDsn:
    """Read the DSNs of a project, and leave them as they are. Raises ProjectNotFound."""
    rows = await store.fetch(_DSN_OF, project_id=project_id)
    if not rows:
        raise ProjectNotFound("There is no such project.")
    [(prefix, sealed, public_prefix, public_sealed)] = rows
    key = unseal(encryption_key, DSN_COPY, project_id, sealed)
    return KnownDsn(prefix, key, public_prefix, unseal(encryption_key, PUBLIC_DSN_COPY, project_id, public_sealed))
