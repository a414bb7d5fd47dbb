"""The automation of a project now: its contract, its budgets, and its exceptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.console.kit.page import View, page
from service.console.kit.visit import ReadRefused, Visit
from service.console.pages.automation.documents import document_of
from statemachines.contracts import contract as contracts

Json = dict[str, Any]
ABSENT = "automation_contract_not_found"
MOST_DECISIONS = 20


@page("projects/{project_id}/automation", section="automation")
async def show_automation(visit: Visit) -> View:
    """Show the contract with its controls."""
    project_id = visit.values["project_id"]
    contract = await saved_contract(visit)
    control = await visit.read("get_automation_control", project_id=project_id)
    decisions = await visit.try_read(
        "list_automation_decisions", project_id=project_id, query={"limit": MOST_DECISIONS}
    )
    playbooks = await visit.read("list_automation_playbooks")
    facts = {
        "contract": contract,
        "control": control,
        "decisions": [] if decisions is None else decisions["decisions"],
        "playbooks": playbooks["playbooks"],
        "validation": await validated(visit, document_of(contract)),
    }
    follows = [contracts.stream(project_id).id]
    return View("automation/contract.html", "Automation", facts, project_id, told(contract), follows)


async def saved_contract(visit: Visit) -> Json | None:
    """The contract of the project; None before the first is saved. Raises ReadRefused."""
    said = await visit.ask("get_automation_contract", {"project_id": visit.values["project_id"]})
    if said.ok:
        found: Json = said.body
        return found
    if said.error["code"] == ABSENT:
        return None
    raise ReadRefused(said)


async def validated(visit: Visit, document: Any) -> Json | None:
    """The validation of a document. None without one, and after a refusal."""
    if document is None:
        return None
    path = {"project_id": visit.values["project_id"]}
    said = await visit.ask("validate_automation_contract", path, body=document)
    return said.body if said.ok else None


def told(contract: Json | None) -> Mapping[str, str]:
    """The facts of a decision."""
    if contract is None:
        return {"Contract": "none saved"}
    on = [one["automation_id"] for one in contract["automations"] if one["enabled"]]
    return {
        "Contract hash": contract["contract_sha256"],
        "Revision": str(contract["revision"]),
        "Enabled": ", ".join(on) or "nothing",
        "Paused": "yes" if contract["paused"] else "no",
    }


PAGES = [show_automation]
