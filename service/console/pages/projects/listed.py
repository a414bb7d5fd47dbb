"""The first page: all projects of the person, with the decisions waiting in each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from service.console.kit.page import View, page
from service.console.kit.together import together
from service.console.kit.visit import Json, Visit
from service.console.pages.projects.standing import ProjectOutlook, standing_of

A_PAGE = 20
"""Projects on a page. Two reads are made for each."""


class ProjectCard(NamedTuple):
    """A project of the list: the project as listed, its health, and the state of its automation.

    `health` is None where it could not be read, such as in a project that is being deleted.
    """

    project: Json
    health: Json | None
    standing: ProjectOutlook

    @property
    def failing(self) -> int:
        """The number of webhooks with a failed last delivery."""
        return sum(one["last_error"] is not None for one in self.health["webhooks"]) if self.health else 0


@page("")
async def show_projects(visit: Visit) -> View:
    """Show the projects, a page of them."""
    found = await visit.read("list_projects", query={"cursor": visit.query.get("cursor"), "limit": A_PAGE})
    projects: Sequence[Json] = found["projects"]
    usage, *read = await together(
        [
            visit.try_read("get_usage"),
            *(
                visit.try_read(operation, project_id=one["project_id"])
                for one in projects
                for operation in ("get_project_health", "get_automation_control")
            ),
        ]
    )
    listed = [
        ProjectCard(one, health, standing_of(control))
        for one, health, control in zip(projects, read[::2], read[1::2], strict=True)
    ]
    facts: dict[str, Any] = {"found": found, "listed": listed, "usage": usage}
    return View("projects/listed.html", "Projects", facts)


PAGES = [show_projects]
