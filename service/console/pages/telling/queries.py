"""The public queries of a project: numbers for everybody."""

from __future__ import annotations

from service.console.kit.page import View, page
from service.console.kit.visit import Visit
from service.console.pages.telling.blueprints import chosen_blueprint


@page("projects/{project_id}/public-queries", section="public-queries")
async def show_public_queries(visit: Visit) -> View:
    """Show the public queries, and a form for another."""
    project_id = visit.values["project_id"]
    found = await visit.read("list_public_queries", project_id=project_id)
    facts = {"found": found, "blueprint": await chosen_blueprint(visit)}
    return View("telling/queries.html", "Public queries", facts, project_id)


PAGES = [show_public_queries]
