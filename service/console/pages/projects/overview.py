"""The overview of a project: its health, its use and its automation."""

from __future__ import annotations

from service.console.kit.page import View, page
from service.console.kit.visit import Visit


@page("projects/{project_id}", section="overview")
async def show_project(visit: Visit) -> View:
    """Show a project."""
    project_id = visit.values["project_id"]
    health = await visit.read("get_project_health", project_id=project_id)
    control = await visit.try_read("get_automation_control", project_id=project_id)
    return View("projects/overview.html", "Overview", {"health": health, "control": control}, project_id)


PAGES = [show_project]
