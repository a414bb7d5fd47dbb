"""Playbooks: a description of each, and its form for a candidate."""

from __future__ import annotations

from service.console.kit.commands import FormProblem
from service.console.kit.fields import Fields
from service.console.kit.page import View, form, page
from service.console.kit.visit import Visit
from service.console.pages.automation.bindings import groups_of, request_of
from service.console.pages.automation.contract import saved_contract, validated
from service.console.pages.automation.documents import document_of, with_candidate
from service.console.pages.automation.editing import editor

PLACE = "projects/{project_id}/automation/playbooks/{id}"


@page(PLACE, section="automation")
async def show_playbook(visit: Visit) -> View:
    """Show a playbook with its form. Anybody may read a playbook, but only members see the project around it."""
    project_id = visit.values["project_id"]
    await visit.read("get_setup", project_id=project_id)
    playbook = await visit.read("get_automation_playbook", id=visit.values["id"])
    facts = {"playbook": playbook, "groups": groups_of(playbook["render_request_schema"])}
    return View("automation/playbook.html", playbook["title"], facts, project_id)


@form(PLACE, section="automation")
async def render_candidate(visit: Visit, fields: Fields) -> View:
    """Render a candidate, and show it in the contract. Raises FormProblem, InvalidPayload and ReadRefused."""
    playbook = await visit.read("get_automation_playbook", id=visit.values["id"])
    body = request_of(fields, playbook["render_request_schema"])
    path = {"project_id": visit.values["project_id"], "id": visit.values["id"]}
    said = await visit.ask("render_automation_playbook", path, body={**body, "version": playbook["version"]})
    if not said.ok:
        raise FormProblem(said.status, said.error)
    document = with_candidate(document_of(await saved_contract(visit)), said.body["contract_input"])
    return await editor(visit, document, validation=await validated(visit, document))


PAGES = [show_playbook]
FORMS = [render_candidate]
