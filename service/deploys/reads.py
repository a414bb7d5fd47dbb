"""Which deploys were recorded (R-ING-08)."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from projections.deploys.deploy import DeployRow
from service.eventstore.read.pages import PageEnd
from service.eventstore.store import EventStore

_NEWEST = """
select row_to_json(d)::text, n.message from deploys d
left join deploy_notes n on n.project_id = d.project_id and n.id = d.id
where d.project_id = %s and (d.recorded_at, d.id) < (%s, %s)
"""
_OF_ENVIRONMENT = " and d.environment = %s"
_NEWEST_ORDER = " order by d.recorded_at desc, d.id desc limit %s"


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
    only, values = ("", ()) if environment is None else (_OF_ENVIRONMENT, (environment,))
    found = await store.fetch(_NEWEST + only + _NEWEST_ORDER, project_id, after.at, after.id, *values, limit)
    return [Noted(msgspec.json.decode(text, type=DeployRow), message) for text, message in found]
