"""The events of a project, newest first. Owners and auditors may read them."""

from __future__ import annotations

from typing import Any

from service.console.kit.following import ALL
from service.console.kit.page import View, page
from service.console.kit.visit import Json, Visit
from service.console.pages.log.checkpoint import checkpoint_of
from service.console.pages.log.positions import NEWEST, number_of

LISTED = 50
LOOKS = 5
"""Pages that are read for one: the log has the events of other projects in between."""


@page("projects/{project_id}/log", section="log")
async def show_log(visit: Visit) -> View:
    """Show the events of a project."""
    project_id = visit.values["project_id"]
    before, events, found = number_of(visit, "before", NEWEST), list[Json](), Json()
    for _ in range(LOOKS):
        query = {"before": before, "limit": LISTED - len(events)}
        found = await visit.read("list_events", project_id=project_id, query=query)
        events = [*found["events"], *events]
        before = found["next_before"] or 0
        if not before or len(events) >= LISTED:
            break
    facts: dict[str, Any] = {
        "events": events[::-1],
        "older": before,
        "paged": "before" in visit.query,
        "log_size": found["log_size"],
        "checkpoint": await checkpoint_of(visit),
    }
    return View("log/browsed.html", "Event log", facts, project_id, follows=[ALL])


PAGES = [show_log]
