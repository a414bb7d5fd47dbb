"""Effects at providers that have begun: what no stop can take back (R-AUT-33).

A consumed grant is a call that its runner may have made. Until a trusted CI proves it, nobody knows what became of it.
"""

from __future__ import annotations

from typing import NamedTuple

from service.eventstore.store import EventStore

_STARTED = (
    "select g.project_id, g.automation_id, g.run_id, g.id, g.kind, g.status, (g.state ->> 'consumed_at')::bigint "
    "from grants g where g.status in ('consumed', 'unresolved')"
)
_ORDER = " order by g.project_id, g.automation_id, g.id limit %s"


class StartedGrant(NamedTuple):
    """A consumed grant that nothing has settled; times in epoch seconds."""

    project_id: str
    automation_id: str
    run_id: str
    grant_id: str
    kind: str
    status: str
    consumed_at: int


async def started(
    store: EventStore, project_id: str, automation_id: str | None = None, *, limit: int
) -> list[StartedGrant]:
    """Read at most `limit` effects of a project, or of one of its automations, that have begun and are not settled.

    Read after a stop was answered, this is what had begun before it: nothing can begin after it.
    """
    if automation_id is None:
        rows = await store.fetch(_STARTED + " and g.project_id = %s" + _ORDER, project_id, limit)
    else:
        query = _STARTED + " and g.project_id = %s and g.automation_id = %s" + _ORDER
        rows = await store.fetch(query, project_id, automation_id, limit)
    return [StartedGrant(*row) for row in rows]


async def started_anywhere(store: EventStore, *, limit: int) -> list[StartedGrant]:
    """Read at most `limit` such effects of the whole installation, also where a stop found nothing left to pause."""
    return [StartedGrant(*row) for row in await store.fetch(_STARTED + _ORDER, limit)]
