"""The source maps that a project keeps, and how to upload them."""

from __future__ import annotations

from service.console.kit.page import View, page
from service.console.kit.visit import Visit

PAGE = 50


@page("projects/{project_id}/source-maps", section="source-maps")
async def show_source_maps(visit: Visit) -> View:
    """Show the files of a project, newest first."""
    project_id, asked = visit.values["project_id"], visit.query
    query = {"release": asked.get("release"), "cursor": asked.get("cursor"), "limit": PAGE}
    found = await visit.read("list_source_maps", project_id=project_id, query=query)
    base = str(visit.call.services.settings.base_url)
    return View("cases/source-maps.html", "Source maps", {"found": found, "base": base}, project_id)


PAGES = [show_source_maps]
