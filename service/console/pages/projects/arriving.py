"""The wait for the first event of a new project: a page that looks again until it is there."""

from __future__ import annotations

import re

from service.console.kit.page import View, page
from service.console.kit.visit import Visit

LOOKS = 600
"""Looks in a row by a page itself, half an hour of them. Then the person looks again."""
_LOOKED = re.compile(r"[0-9]{1,5}")


@page("projects/{project_id}/arrived", section="overview")
async def show_arrival(visit: Visit) -> View:
    """Show whether a first event came. `looked` counts the looks before."""
    project_id = visit.values["project_id"]
    health = await visit.read("get_project_health", project_id=project_id)
    found = _LOOKED.fullmatch(visit.query.get("looked", ""))
    looked = 0 if found is None else min(int(found[0]), LOOKS)
    facts = {"arrived_at": health["last_event_received_at"], "looked": looked, "looks": LOOKS}
    return View("projects/arrived.html", "The first event", facts, project_id)


PAGES = [show_arrival]
