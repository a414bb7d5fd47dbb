"""The first page: all projects of the person, with the decisions waiting in each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from service.console.kit.page import View, page
from service.console.kit.together import together
from service.console.kit.visit import Json, Visit
from service.console.pages.projects.standing import ProjectOutlook, plan_waits, standing_of

A_PAGE = 20
"""Projects on a page. Two reads are made for each, and a third where a plan may wait."""
EVERY = 60
"""Seconds after which the page reads itself anew."""


class ProjectCard(NamedTuple):
    """A project of the list: the project as listed, its health, the state of its automation, and whether a plan waits.

    `health` is None where it could not be read, such as in a project that is being deleted.
    """

    project: Json
    health: Json | None
    standing: ProjectOutlook
    plan_waits: bool

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
    waiting = await _plans(visit, zip(projects, read[1::2], strict=True))
    listed = [
        ProjectCard(one, health, standing_of(control), one["project_id"] in waiting)
        for one, health, control in zip(projects, read[::2], read[1::2], strict=True)
    ]
    facts: dict[str, Any] = {"found": found, "listed": listed, "usage": usage}
    return View("projects/listed.html", "Projects", facts, every=EVERY)


async def _plans(visit: Visit, projects: Iterable[tuple[Json, Json | None]]) -> set[str]:
    """The own projects whose onboarding waits for the person. Where automation is on, no plan is looked for."""
    asked = [
        project["project_id"]
        for project, control in projects
        if project["role"] == "owner" and standing_of(control).word != "on"
    ]
    found = await together(visit.try_read("get_onboarding", project_id=project_id) for project_id in asked)
    return {project_id for project_id, one in zip(asked, found, strict=True) if plan_waits(one)}


PAGES = [show_projects]
