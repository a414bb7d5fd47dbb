"""The first page: all projects of the person."""

from __future__ import annotations

from service.console.kit.page import View, page
from service.console.kit.visit import Visit


@page("")
async def show_projects(visit: Visit) -> View:
    """Show the projects, a page of them."""
    found = await visit.read("list_projects", query={"cursor": visit.query.get("cursor"), "limit": 50})
    return View("projects/listed.html", "Projects", {"found": found})


PAGES = [show_projects]
