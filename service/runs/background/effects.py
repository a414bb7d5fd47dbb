"""Effects at providers that have begun: what no stop can take back (R-AUT-33).

A consumed grant is a call that its runner may have made. Until a trusted CI proves it, nobody knows what became of it.
"""

from __future__ import annotations

from typing import NamedTuple

from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.store import EventStore

_STARTED = load_sql("runs", "started_effects")


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
    rows = await store.fetch_planned(_STARTED, project_id=project_id, automation_id=automation_id, most=limit)
    return [StartedGrant(*row) for row in rows]


async def started_anywhere(store: EventStore, *, limit: int) -> list[StartedGrant]:
    """Read at most `limit` such effects of the whole installation, also where a stop found nothing left to pause."""
    rows = await store.fetch_planned(_STARTED, project_id=None, automation_id=None, most=limit)
    return [StartedGrant(*row) for row in rows]
