"""The deletion of a project: its extent, a confirmation by its name, and its progress."""

from __future__ import annotations

from service.console.kit.commands import FormProblem
from service.console.kit.fields import Fields, first
from service.console.kit.page import View, form, page
from service.console.kit.visit import Visit
from service.ids import new_id

ADDRESS = "projects/{project_id}/delete"


@page(ADDRESS, section="overview")
async def show_deletion(visit: Visit) -> View:
    """Show the extent of a deletion, and ask for the name of the project."""
    project_id = visit.values["project_id"]
    setup = await visit.read("get_setup", project_id=project_id)
    facts = {"name": setup["project"]["name"]}
    return View("projects/delete.html", "Delete this project", facts, project_id)


@form(ADDRESS)
async def delete_project(visit: Visit, fields: Fields) -> View:
    """Begin a deletion, or show its progress. The same request does both. Raises FormProblem."""
    project_id, key = visit.values["project_id"], first(fields, "_key") or new_id("req")
    if first(fields, "begun") != "yes":
        setup = await visit.read("get_setup", project_id=project_id)
        if first(fields, "name").strip() != setup["project"]["name"].strip():
            raise FormProblem.of_field("name", "is not the name of this project")
    said = await visit.ask("delete_project", {"project_id": project_id}, body={}, headers={"idempotency-key": key})
    if not said.ok:
        raise FormProblem(said.status, said.error)
    facts = {"found": said.body, "key": key, "project_id": project_id}
    return View("projects/deleted.html", "Deletion of a project", facts)


PAGES = [show_deletion]
FORMS = [delete_project]
