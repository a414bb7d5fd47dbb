"""The onboarding of a project: its plan, the approval of it, and the proof."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schemas.onboarding.proof import ProofRequest
from service.console.kit.commands import FormProblem
from service.console.kit.fields import Fields, body_of, first
from service.console.kit.page import Redirect, View, form, page
from service.console.kit.places import local
from service.console.kit.visit import ReadRefused, Visit
from service.console.pages.onboarding.evidence import pieces_of
from statemachines.onboarding import lifecycle
from statemachines.onboarding.lifecycle import Status

Json = dict[str, Any]
STEPS = (
    (Status.PLANNED, "Planned", "An agent has handed in a plan."),
    (Status.APPROVED, "Approved", "An owner has approved it, by its hash."),
    (Status.PROVING, "Proving", "The product runs with markers of the proof."),
    (Status.VERIFIED, "Verified", "Every signal of the plan has been seen."),
)
"""The states of an onboarding in their order, each with its title and a sentence."""


@page("projects/{project_id}/onboarding", section="onboarding")
async def show_onboarding(visit: Visit) -> View:
    """Show the state of the onboarding."""
    project_id = visit.values["project_id"]
    said = await visit.ask("get_onboarding", {"project_id": project_id})
    if said.ok:
        return await _view(visit, said.body)
    if said.error["code"] == "onboarding_not_started":
        return await _view(visit, None)
    if said.error["code"] == "owner_required":
        return await _view(visit, None, member=True)
    raise ReadRefused(said)


@form("projects/{project_id}/onboarding/verify", section="onboarding")
async def verify(visit: Visit, fields: Fields) -> View | Redirect:
    """Verify the proof, and show its gaps. Raises FormProblem."""
    project_id = visit.values["project_id"]
    headers = {"if-match": first(fields, "_if_match")}
    said = await visit.ask("verify_onboarding", {"project_id": project_id}, headers=headers)
    if not said.ok:
        raise FormProblem(said.status, said.error)
    place = f"projects/{project_id}/onboarding"
    if said.body["ok"]:
        return Redirect(place, "verify_onboarding")
    visit.place = place
    return await _view(visit, said.body["state"], said.body["remaining"])


@form("projects/{project_id}/onboarding/proof", section="onboarding")
async def start_proof(visit: Visit, fields: Fields) -> View:
    """Start a proof, and show its markers this once. Raises FormProblem."""
    project_id = visit.values["project_id"]
    headers = {"if-match": first(fields, "_if_match")}
    body = body_of(fields, ProofRequest)
    said = await visit.ask("start_onboarding_proof", {"project_id": project_id}, body=body, headers=headers)
    if not said.ok:
        raise FormProblem(said.status, said.error)
    facts = {
        "markers": said.body["one_time_markers"],
        "session": said.body["state"]["proof_session"],
        "after": local(f"projects/{project_id}/onboarding"),
    }
    return View("onboarding/markers.html", "Keep these markers now", facts, project_id)


async def _view(visit: Visit, state: Json | None, remaining: Json | None = None, *, member: bool = False) -> View:
    project_id = visit.values["project_id"]
    map_ = None if state is not None else await visit.try_read("get_signal_map", project_id=project_id)
    plan = map_ if state is None else state["plan"]
    receipt = map_["receipt"] if state is None and map_ is not None else (state or {}).get("receipt")
    facts = {
        "state": state,
        "map": map_,
        "plan": plan,
        "member": member,
        "steps": _steps(state),
        "checked": remaining is not None,
        "pieces": [] if plan is None else pieces_of(plan, remaining=remaining, receipt=receipt),
        "report": await visit.try_read("get_verify_report", project_id=project_id),
        "answers": await visit.try_read("list_answer_contracts", project_id=project_id),
        "base_url": visit.call.services.settings.base_url,
    }
    follows = [lifecycle.stream(project_id).id]
    return View("onboarding/state.html", "Onboarding", facts, project_id, _told(state), follows)


def _told(state: Json | None) -> Mapping[str, str]:
    """The facts of a decision."""
    if state is None:
        return {"Status": "no plan"}
    return {"Status": state["status"], "Plan hash": state["plan_sha256"], "Revision": str(state["revision"])}


def _steps(state: Json | None) -> list[tuple[str, str, str]]:
    """Each step with its sentence and its mark: done, current, or none."""
    order = [status.value for status, _, _ in STEPS]
    reached = -1 if state is None else order.index(state["status"])
    done = len(order) if reached == len(order) - 1 else reached
    marks = ["done" if index < done else "current" if index == reached else "" for index in range(len(order))]
    return [(title, sentence, mark) for (_, title, sentence), mark in zip(STEPS, marks, strict=True)]


PAGES = [show_onboarding]
FORMS = [verify, start_proof]
