"""Which deploys were recorded (R-ING-08)."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from projections.deploys.deploy import DeployRow
from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.read.pages import PageEnd
from service.eventstore.store import EventStore
from statemachines.projects.project import ProjectNotFound

_PAYER = load_sql("deploys", "payer")
_NEWEST = load_sql("deploys", "newest")
_NEWEST_OF_ENVIRONMENT = load_sql("deploys", "newest_of_environment")


class Noted(NamedTuple):
    """A deploy with the free message that came with it."""

    row: DeployRow
    message: str | None

    @property
    def place(self) -> PageEnd:
        """Where it stands in the list."""
        return PageEnd(self.row.recorded_at, self.row.id)


async def newest(
    store: EventStore, project_id: str, environment: str | None, after: PageEnd, limit: int
) -> list[Noted]:
    """Read at most `limit` deploys of a project after a place, newest first; of one environment, or of all (None)."""
    page = {"project_id": project_id, "at": after.at, "id": after.id, "limit": limit}
    if environment is None:
        found = await store.fetch(_NEWEST, **page)
    else:
        found = await store.fetch(_NEWEST_OF_ENVIRONMENT, **page, environment=environment)
    return [Noted(msgspec.json.decode(text, type=DeployRow), message) for text, message in found]


async def payer(store: EventStore, project_id: str) -> str:
    """The paying account of a project. Raises ProjectNotFound once the project is gone."""
    for (account_id,) in await store.fetch(_PAYER, project_id=project_id):
        return str(account_id)
    raise ProjectNotFound("There is no such project.")
