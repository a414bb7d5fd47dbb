"""The settings of a project."""

from __future__ import annotations

from service.console.kit.page import View, page
from service.console.kit.visit import Visit


@page("projects/{project_id}/settings", section="settings")
async def show_settings(visit: Visit) -> View:
    """Show the settings in force, with a form to owners."""
    project_id = visit.values["project_id"]
    found = await visit.read("get_project_settings", project_id=project_id)
    return View("projects/settings.html", "Settings of the project", {"found": found}, project_id)


PAGES = [show_settings]
